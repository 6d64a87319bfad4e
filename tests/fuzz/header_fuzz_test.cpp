#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "transport/wire/header.h"

BOOST_AUTO_TEST_SUITE(header_fuzz_test)

namespace {

using namespace troupe;
using namespace troupe::transport;

constexpr int kRounds = 20'000;

std::optional<Header> decode_text(const std::string& text) {
  return decode({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

Header sample(std::mt19937_64& random) {
  const EdgeId edge{.chunk = static_cast<int>(random() % 64),
                    .direction = static_cast<Direction>(random() % 2),
                    .digest = random()};
  Credit credit{.edge = edge, .slots = {}};
  for (std::size_t i = random() % 65; i > 0; --i)
    credit.slots.push_back(static_cast<std::uint16_t>(random()));
  Header header{.run = random(),
                .configuration = static_cast<std::uint32_t>(random()),
                .sender = static_cast<int>(random() % 1000),
                .body = credit};
  const tensor::Shape shape{static_cast<std::int64_t>(random() % 100), 256, 512};
  switch (random() % 4) {
    case 0:
      header.body = TensorMessage{.edge = edge,
                                  .step = random(),
                                  .shape = shape,
                                  .bytes = random(),
                                  .sequence = random(),
                                  .credit = credit};
      break;
    case 1:
      header.body =
          Grant{.edge = edge, .shape = shape, .slots = 3, .segment = {.id = 77, .nonce = random()}};
      break;
    case 2:
      header.body = CollectiveMessage{.group = 5,
                                      .sequence = random(),
                                      .bytes = random(),
                                      .segment = {.id = 77, .nonce = random()},
                                      .segment_bytes = random(),
                                      .offset = random()};
      break;
    default:
      break;
  }
  return header;
}

/// Checks that whatever is read back is a header that encode() could have written.
void check(const std::string& text) {
  const auto header = decode_text(text);
  if (!header) return;
  HeaderBytes bytes;
  const std::size_t size = encode(*header, bytes);
  BOOST_TEST_REQUIRE((decode({bytes.data(), size}) == header));
}

BOOST_AUTO_TEST_CASE(random_bytes_are_no_header) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < kRounds; ++round) {
    std::string text(random() % 400, '\0');
    for (char& c : text) c = static_cast<char>(random());
    if (text.size() >= 8 &&
        round % 2 == 0) {  // a segment table that fits, so that the rest is read
      const std::uint32_t table[2] = {0, static_cast<std::uint32_t>(text.size() / 8 - 1)};
      std::memcpy(text.data(), table, sizeof table);
    }
    BOOST_TEST_REQUIRE(!decode_text(text).has_value());
  }
}

BOOST_AUTO_TEST_CASE(mutated_headers_are_refused_or_whole) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < kRounds; ++round) {
    HeaderBytes bytes;
    const std::size_t size = encode(sample(random), bytes);
    check(test::mutated(std::string(reinterpret_cast<const char*>(bytes.data()), size), random));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
