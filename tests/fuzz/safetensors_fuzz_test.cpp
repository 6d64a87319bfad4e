#include <boost/test/unit_test.hpp>

#include "stages/files/safetensors/safetensors.h"
#include "tensor/errors/error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(safetensors_fuzz_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

/// Headers with the number of data bytes that they describe.
const std::vector<std::pair<std::string, std::uint64_t>> kHeaders = {
    {"{}", 0},
    {R"({"__metadata__":{"format":"pt","xxh64:a":"0123456789abcdef"},)"
     R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
     R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},)"
     R"("c":{"dtype":"F4","shape":[4],"data_offsets":[26,28]}}   )",
     28},
    {R"({"__metadata__":{"xxh64:a[0:1,0:3]":"0123456789abcdef","xxh64:a[1:2,0:3]":"----"},)"
     R"("a":{"dtype":"U8","shape":[3,3],"data_offsets":[0,9]}})",
     9},
    {R"({"e\u00e4":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]},)"
     R"("z":{"dtype":"U8","shape":[1,1,1,1,1],"data_offsets":[0,1]}})",
     1},
};

/// Checks what every accepted header promises its users.
void check_accepted(std::span<const TensorEntry> tensors, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (const TensorEntry& entry : tensors) {
    BOOST_REQUIRE(entry.begin == end);
    BOOST_REQUIRE(entry.end >= entry.begin);
    end = entry.end;
    const auto elements = static_cast<std::uint64_t>(entry.whole.num_elements());
    BOOST_REQUIRE(elements * entry.element_bytes == entry.num_bytes());
    std::uint64_t summed = 0;
    for (const RegionSum& sum : entry.sums) {
      BOOST_REQUIRE(tensor::intersection(sum.region, entry.whole).num_elements() ==
                    sum.region.num_elements());
      summed += static_cast<std::uint64_t>(sum.region.num_elements());
    }
    BOOST_REQUIRE((entry.sums.empty() || summed == elements));
  }
  BOOST_REQUIRE(end == data_bytes);
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_header_is_accepted_with_its_promises_or_refused) {
  std::mt19937_64 random(test::fresh_seed());
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto& [header, data_bytes] = kHeaders[test::below(random, kHeaders.size())];
    const std::string text = test::mutated(header, random);
    try {
      check_accepted(parse_safetensors_header(text, data_bytes).tensors, data_bytes);
      ++accepted;
    } catch (const Error& error) {
      BOOST_REQUIRE(error.kind() == ErrorKind::data);
    }
  }
  BOOST_TEST_MESSAGE(accepted << " of 20000 mutated headers were accepted");
  BOOST_TEST(accepted > 0);  // or the mutations are too strong to reach the deeper checks
}

BOOST_AUTO_TEST_CASE(any_file_is_read_or_refused) {
  std::mt19937_64 random(test::fresh_seed());
  const test::TempDir dir;
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const tensor::Tensor tensor{values.data(), tensor::DType::f32, {2, 3}};
  write_safetensors(dir / "sound", {{"a", tensor}, {"b", tensor}});
  const std::string sound = test::content_of(dir / "sound");
  for (int round = 0; round < 3000; ++round) {
    const std::string content = test::mutated(sound, random);
    const std::string path = dir.write("file", content);
    try {
      const SafetensorsFile file = SafetensorsFile::open(path);
      for (const TensorEntry& entry : file.tensors()) {
        std::vector<std::byte> bytes(entry.num_bytes());
        file.read(entry, entry.whole, bytes);
      }
    } catch (const Error& error) {
      BOOST_REQUIRE(error.kind() == ErrorKind::data);
      BOOST_REQUIRE(std::string(error.what()).find(path) != std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
