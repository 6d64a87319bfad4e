#include "transport/wire/header.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(header_test)

namespace {

using namespace troupe;
using namespace troupe::transport;

template <typename List>
void fill(List& list) {
  for (std::size_t i = 0; i < List::static_capacity; ++i)
    list.push_back(static_cast<std::uint16_t>(65535 - i));
}

Credit full_credit() {
  Credit credit{.edge = {.chunk = 7, .direction = Direction::backward, .digest = ~0ull},
                .slots = {}};
  fill(credit.slots);
  return credit;
}

/// The largest header of each kind.
std::vector<Header> headers() {
  const EdgeId edge{.chunk = 3, .direction = Direction::backward, .digest = 0x0123456789abcdefull};
  const tensor::Shape shape{4, 256, 512, 2};
  const TensorMessage tensor{.edge = edge,
                             .step = std::numeric_limits<std::uint64_t>::max(),
                             .microbatch = std::numeric_limits<int>::max(),
                             .slot = 65535,
                             .placement = Placement::written,
                             .dtype = tensor::DType::bf16,
                             .shape = shape,
                             .bytes = 1ull << 40,
                             .sequence = 99,
                             .credit = full_credit()};
  TensorMessage bare = tensor;
  bare.credit.reset();
  bare.shape = {};
  const CollectiveMessage collective{.kind = CollectiveKind::called,
                                     .group = 12,
                                     .sequence = 1ull << 50,
                                     .operation = 4,
                                     .part = 77,
                                     .bytes = 123,
                                     .dtype = tensor::DType::i64,
                                     .reduction = 2,
                                     .segment = {.id = 98765, .nonce = ~0ull - 1},
                                     .segment_bytes = 1ull << 40,
                                     .offset = 4096};
  const Grant grant{.edge = edge,
                    .dtype = tensor::DType::f64,
                    .shape = shape,
                    .slots = 17,
                    .segment = {.id = 123456, .nonce = ~0ull},
                    .on_device = true};
  const Header header{
      .run = ~0ull, .configuration = ~0u, .sender = std::numeric_limits<int>::max(), .body = {}};
  std::vector<Header> all(6, header);
  all[0].body = grant;
  all[1].body = tensor;
  all[2].body = bare;
  all[3].body = full_credit();
  all[4].body = collective;
  all[5].body = Decline{.edge = edge};
  return all;
}

std::vector<std::byte> bytes_of(const Header& header) {
  HeaderBytes buffer;
  const std::size_t size = encode(header, buffer);
  return {buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size)};
}

BOOST_AUTO_TEST_CASE(every_header_survives_the_way) {
  for (const Header& header : headers()) {
    const auto bytes = bytes_of(header);
    BOOST_TEST(bytes.size() <= kMaxHeaderBytes);
    const auto read = decode(bytes);
    BOOST_TEST_REQUIRE(read.has_value());
    BOOST_TEST((*read == header));
  }
}

BOOST_AUTO_TEST_CASE(headers_are_read_at_any_alignment) {
  const Header header = headers()[1];
  const auto bytes = bytes_of(header);
  std::vector<std::byte> room(bytes.size() + 16);
  for (std::size_t offset = 0; offset < 16; ++offset) {
    std::memcpy(room.data() + offset, bytes.data(), bytes.size());
    const auto read = decode({room.data() + offset, bytes.size()});
    BOOST_TEST((read && *read == header));
  }
}

BOOST_AUTO_TEST_CASE(a_tensors_header_is_short) {
  // UCX sends a header of this size in one piece; its limit is far larger.
  BOOST_TEST(bytes_of(headers()[2]).size() <= 256u);
}

BOOST_AUTO_TEST_CASE(one_scratch_buffer_serves_many_headers) {
  HeaderBytes buffer;
  for (int round = 0; round < 3; ++round) {
    for (const Header& header : headers()) {
      const std::size_t size = encode(header, buffer);
      BOOST_TEST((decode({buffer.data(), size}) == header));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cut_header_is_none) {
  for (const Header& header : headers()) {
    const auto bytes = bytes_of(header);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      BOOST_TEST(!decode({bytes.data(), size}).has_value(), "cut to " << size);
  }
}

BOOST_AUTO_TEST_CASE(a_long_header_is_none) {
  std::vector<std::byte> bytes = bytes_of(headers()[1]);
  bytes.resize(kMaxHeaderBytes + 8);
  BOOST_TEST(!decode(bytes).has_value());
}

BOOST_AUTO_TEST_CASE(a_changed_bit_is_noticed_or_means_nothing) {
  for (const Header& header : headers()) {
    std::vector<std::byte> bytes = bytes_of(header);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      const auto read = decode(bytes);
      BOOST_TEST((!read || *read == header), "bit " << bit);
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
