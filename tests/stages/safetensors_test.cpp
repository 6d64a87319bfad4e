#include "stages/files/safetensors/safetensors.h"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "stages/files/safetensors/region_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(safetensors_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;

namespace {

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

/// The JSON of a header with one tensor `a`.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" +
         offsets + "]}}";
}

struct Fixture {
  test::TempDir dir;

  void refused(const std::string& content, const std::string& why) {
    const std::string path = dir.write("bad.safetensors", content);
    expect_error(ErrorKind::data, {"bad.safetensors", why}, [&] { SafetensorsFile::open(path); });
  }
  void accepted(const std::string& content) {
    BOOST_CHECK_NO_THROW(SafetensorsFile::open(dir.write("good.safetensors", content)));
  }
};

template <typename T>
tensor::Tensor view(std::vector<T>& values, tensor::DType dtype, tensor::Shape shape) {
  return {values.data(), dtype, shape};
}

void verify(const SafetensorsFile& file) {
  const Progress nobody;
  ProgressSum verified(nobody, 0);
  file.verify(verified);
}

std::vector<float> floats_of(const SafetensorsFile& file, const TensorEntry& entry) {
  std::vector<float> values(entry.num_bytes() / sizeof(float));
  file.read(entry, entry.whole, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(safetensors, Fixture)

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  std::vector<float> matrix = {1, 2, 3, 4, 5, 6}, scalar = {-7}, none;
  const auto path = dir / "file.safetensors";
  write_safetensors(path, {{"m", view(matrix, tensor::DType::f32, {2, 3})},
                           {"s", view(scalar, tensor::DType::f32, {})},
                           {"empty", view(none, tensor::DType::f32, {0, 4})}});
  const SafetensorsFile file = SafetensorsFile::open(path);
  BOOST_REQUIRE(file.tensors().size() == 3u);
  BOOST_TEST(file.size() == std::filesystem::file_size(path));
  for (const TensorEntry& entry : file.tensors()) {
    if (entry.name == "m") {
      BOOST_TEST((entry.shape == std::vector<std::int64_t>{2, 3}));
      BOOST_TEST((floats_of(file, entry) == matrix));
    } else if (entry.name == "s") {
      BOOST_TEST(entry.shape.empty());
      BOOST_TEST((floats_of(file, entry) == scalar));
    } else {
      BOOST_TEST(entry.name == "empty");
      BOOST_TEST(entry.num_bytes() == 0u);
    }
  }
  BOOST_CHECK_NO_THROW(verify(file));
}

BOOST_AUTO_TEST_CASE(the_bytes_are_those_of_the_format) {
  std::vector<float> b = {1}, a = {2};
  std::vector<double> wide = {3};
  std::vector<std::uint16_t> narrow = {0x3f80, 0};
  const auto path = dir / "file.safetensors";
  write_safetensors(path, {{"n", view(narrow, tensor::DType::bf16, {2})},
                           {"b", view(b, tensor::DType::f32, {1})},
                           {"a\"", view(a, tensor::DType::f32, {1})},
                           {"w", view(wide, tensor::DType::f64, {1})}});
  // Tensors are ordered by dtype, wide ones first, then by name. The header is padded with spaces
  // to a multiple of 8. The sums are those of libxxhash.
  std::string header = R"({"__metadata__":{"format":"pt","xxh64:w":"eaf7642326107d12",)"
                       R"("xxh64:a\"":"4f3ec3409f0d3777","xxh64:b":"7b54265d12bf1ccd",)"
                       R"("xxh64:n":"9bd3e10f34147a8f"})"
                       R"(,"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]})"
                       R"(,"a\"":{"dtype":"F32","shape":[1],"data_offsets":[8,12]})"
                       R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]})"
                       R"(,"n":{"dtype":"BF16","shape":[2],"data_offsets":[16,20]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string data(20, '\0');
  std::memcpy(data.data(), wide.data(), 8);
  std::memcpy(data.data() + 8, a.data(), 4);
  std::memcpy(data.data() + 12, b.data(), 4);
  std::memcpy(data.data() + 16, narrow.data(), 4);
  BOOST_TEST(test::content_of(path) == file_of(header, data));
}

BOOST_AUTO_TEST_CASE(narrow_weights_are_read_as_floats) {
  // 1 to 6 in [3, 2]; the last two rows, and their transpose.
  std::vector<std::uint16_t> halves = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
  std::vector<std::uint16_t> brains = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0};
  const auto bytes_of = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), 12);
  };
  for (const auto& [dtype, data] :
       {std::pair("F16", bytes_of(halves)), std::pair("BF16", bytes_of(brains))}) {
    const SafetensorsFile file = SafetensorsFile::open(
        dir.write("narrow.safetensors", file_of(one(dtype, "3,2", "0,12"), data)));
    const TensorEntry& entry = file.tensors()[0];
    std::vector<float> some(4);
    file.read_floats(entry, {1, 2, 0, 2}, some);
    BOOST_TEST(some == (std::vector<float>{3, 4, 5, 6}));
    file.read_floats(entry, {1, 2, 0, 2}, some, Order::columns);
    BOOST_TEST(some == (std::vector<float>{3, 5, 4, 6}));
  }
}

BOOST_AUTO_TEST_CASE(regions_have_a_checksum_each) {
  std::vector<float> top = {1, 2}, below = {3, 4, 5, 6};
  const SafetensorsLayout layout(
      {{.name = "m", .shape = {3, 2}, .regions = {{0, 1, 0, 2}, {1, 2, 0, 2}}}});
  const auto path = dir / "file.safetensors";
  const auto device = tensor::make_cpu_device(1);
  tensor::HostCopies copies(*device);
  write_regions(path, layout, {{"m", {0, 1, 0, 2}, std::as_bytes(std::span(top))}}, copies,
                nullptr);
  std::string header = R"({"__metadata__":{"format":"pt","xxh64:m[0:1,0:2]":"c86e535c30403d76",)"
                       R"("xxh64:m[1:2,0:2]":"----------------"})"
                       R"(,"m":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string unset = "----------------";
  header.replace(header.find(unset), unset.size(), unset.size(), '\0');  // nobody has written it
  std::string data(24, '\0');
  std::memcpy(data.data(), top.data(), 8);
  BOOST_TEST(test::content_of(path) == file_of(header, data));
  write_regions(path, layout, {{"m", {1, 2, 0, 2}, std::as_bytes(std::span(below))}}, copies,
                nullptr);
  const SafetensorsFile file = SafetensorsFile::open(path);
  BOOST_CHECK_NO_THROW(verify(file));
  BOOST_TEST((floats_of(file, file.tensors()[0]) == std::vector<float>{1, 2, 3, 4, 5, 6}));
}

BOOST_AUTO_TEST_CASE(checksums_must_cover_their_tensor_once) {
  const auto with = [](const std::vector<std::string>& regions) {
    std::string header = R"({"__metadata__":{"format":"pt")";
    for (const std::string& region : regions)
      header += R"(,"xxh64:a)" + region + R"(":"0123456789abcdef")";
    return file_of(header + R"(},"a":{"dtype":"U8","shape":[4,2],"data_offsets":[0,8]}})",
                   "12345678");
  };
  for (const std::vector<std::string>& regions : std::vector<std::vector<std::string>>{
           {},
           {""},
           {"[0:4,0:2]"},
           {"[0:4,0:1]", "[0:4,1:1]"},
           {"[3:1,0:2]", "[0:1,0:2]", "[1:2,0:2]"},
           {"[0:2,0:1]", "[0:2,1:1]", "[2:2,0:2]"},
           {"[0:1,0:1]", "[1:3,0:1]", "[0:2,1:1]", "[2:2,1:1]"},
           {"[0:1]", "[x:4,0:2]", "[0:4,0:2", "[00:4,0:2]", "b"}})  // names of other things
    accepted(with(regions));
  for (const std::vector<std::string>& regions :
       std::vector<std::vector<std::string>>{{"[0:3,0:2]"},
                                             {"[1:3,0:2]"},
                                             {"[0:2,0:2]", "[3:1,0:2]"},
                                             {"[0:2,0:2]", "[1:3,0:2]"},
                                             {"[0:4,0:2]", ""},
                                             {"[0:4,0:1]"},
                                             {"[0:5,0:2]"},
                                             {"[0:4,0:3]"},
                                             {"[0:4,0:2]", "[4:0,0:2]"},
                                             {"[-1:5,0:2]"},
                                             {"[0:9223372036854775807,0:2]", "[1:3,0:2]"},
                                             {"[0:2,0:1]", "[0:2,1:1]", "[2:2,0:1]"},
                                             {"[0:2,0:2]", "[2:2,0:1]", "[2:1,1:1]"}})
    refused(with(regions), "the checksums of tensor a do not cover it once");
}

BOOST_AUTO_TEST_CASE(a_file_without_tensors_is_sound) {
  write_safetensors(dir / "file.safetensors", {});
  BOOST_TEST(SafetensorsFile::open(dir / "file.safetensors").tensors().empty());
  accepted(file_of("{}", ""));
}

BOOST_AUTO_TEST_CASE(files_of_others_are_read) {
  const std::string path = dir.write(
      "file.safetensors", file_of(R"({"late":{"shape":[2],"data_offsets":[8,12],"dtype":"BF16"},)"
                                  R"("early":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                                  R"("none":{"dtype":"I8","shape":[0],"data_offsets":[8,8]}})"
                                  "   ",
                                  "123456781234"));
  const SafetensorsFile file = SafetensorsFile::open(path);
  BOOST_REQUIRE(file.tensors().size() == 3u);
  BOOST_TEST(file.tensors()[0].name == "early");
  BOOST_TEST(file.tensors()[1].name == "none");
  BOOST_TEST(file.tensors()[2].name == "late");
  BOOST_TEST(file.tensors()[2].dtype == "BF16");
  accepted(file_of(one("F4", "2,3", "0,3"), "123"));
  accepted(file_of(one("F6_E2M3", "4", "0,3"), "123"));
}

BOOST_AUTO_TEST_CASE(a_broken_frame_is_refused) {
  refused("1234567", "7 bytes");
  refused(std::string("\0\xe1\xf5\x05\0\0\0\0", 8) + "{}", "goes beyond");          // 100,000,000
  refused(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}", "at most 100000000");  // one more
  refused(std::string(8, '\xff') + "{}", "at most");
  refused(std::string("\3\0\0\0\0\0\0\0", 8) + "{}", "goes beyond its 10 bytes");
  refused(file_of("", ""), "does not begin with {");
  refused(file_of(" {}", ""), "does not begin with {");
  refused(file_of("{}", "x"), "the file holds 1 after its header");
}

BOOST_AUTO_TEST_CASE(a_broken_header_is_refused) {
  refused(file_of("{", ""), "not valid JSON");
  refused(file_of("{\"a\xff\":1}", ""), "not valid JSON");
  refused(file_of("{} x", ""), "not valid JSON");
  refused(file_of("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}", ""),
          "nested deeper");
  refused(file_of(R"({"a":1})", ""), "tensor a is no object");
  refused(file_of(R"({"__metadata__":1})", ""), "__metadata__ is no object");
  refused(file_of(R"({"__metadata__":{"a":1}})", ""), "text only");
  refused(file_of(R"({"__metadata__":{"a":"1","a":"1"}})", ""), "twice");
  const std::string entry = R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]})";
  refused(file_of("{" + entry + "," + entry + "}", "x"), "\"a\" is given twice");
  refused(file_of(R"({"a":{"shape":[],"data_offsets":[0,1]}})", "x"), "no \"dtype\"");
  refused(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x"), "no list \"shape\"");
  refused(file_of(R"({"a":{"dtype":"U8","shape":[]}})", "x"), "no list \"data_offsets\"");
  refused(file_of(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"b":0}})", "x"),
          "members beyond");
}

BOOST_AUTO_TEST_CASE(a_wrong_tensor_is_refused) {
  refused(file_of(one("U9", "1", "0,1"), "x"), "unknown dtype U9");
  refused(file_of(one("U8", "-1", "0,1"), "x"), "holds -1");
  refused(file_of(one("U8", "1.0", "0,1"), "x"), "holds 1.0");
  refused(file_of(one("U8", "\"1\"", "0,1"), "x"), "expected whole numbers");
  refused(file_of(one("U8", "1", "0"), "x"), "holds 1 numbers");
  refused(file_of(one("U8", "1", "0,18446744073709551615"), "x"), "expected whole numbers");
  refused(file_of(one("U8", "1", "1,2"), "xx"), "expected it to begin at 0");
  refused(file_of(one("U8", "1", "0,2"), "xx"), "has 2 bytes");
  refused(file_of(one("F32", "1", "0,1"), "x"), "need 4");
  refused(file_of(one("F4", "1", "0,1"), "x"), "ends inside a byte");
  refused(file_of(one("U8", "4294967296,4294967296", "0,1"), "x"), "overflows");
  refused(file_of(one("U64", "1152921504606846976", "0,1"), "x"), "overflows");
  refused(file_of(one("U8", "1", "0,1"), ""), "the file holds 0");
}

BOOST_AUTO_TEST_CASE(gaps_overlaps_and_backward_tensors_are_refused) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[)" + first +
           R"(]},"b":{"dtype":"U8","shape":[2],"data_offsets":[)" + second + "]}}";
  };
  accepted(file_of(two("2,4", "0,2"), "1234"));
  refused(file_of(two("0,2", "3,5"), "12345"), "tensor b");
  refused(file_of(two("0,2", "1,3"), "123"), "tensor b");
  refused(file_of(two("0,2", "0,2"), "12"), "expected it to begin at 2");
  refused(file_of(two("0,2", "2,0"), "12"), "expected it to begin at 2");
}

BOOST_AUTO_TEST_CASE(a_changed_byte_is_found_by_its_checksum) {
  std::vector<float> values(100, 1.5f);
  const auto path = dir / "file.safetensors";
  write_safetensors(path, {{"good", view(values, tensor::DType::f32, {100})},
                           {"hurt", view(values, tensor::DType::f32, {10, 10})}});
  std::string content = test::content_of(path);
  content.back() ^= 1;
  dir.write("file.safetensors", content);
  const SafetensorsFile file = SafetensorsFile::open(path);
  BOOST_TEST((floats_of(file, file.tensors()[0]) == values));
  const std::vector<std::string> words = {"file.safetensors", "damaged", "hurt"};
  expect_error(ErrorKind::data, words, [&] { floats_of(file, file.tensors()[1]); });
  expect_error(ErrorKind::data, words, [&] { verify(file); });
}

/// The time per tensor must not depend on their number: work that grows with its square would
/// exceed the test's time limit.
BOOST_AUTO_TEST_CASE(a_header_of_many_tensors_is_read) {
  std::string header = "{";
  for (int i = 0; i < 300'000; ++i)
    header += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  BOOST_TEST(parse_safetensors_header(header + "}", 0).tensors.size() == 300'000u);
}

BOOST_AUTO_TEST_CASE(a_file_cut_after_it_was_opened_is_an_error) {
  std::vector<float> values(100, 1.5f);
  const auto path = dir / "file.safetensors";
  write_safetensors(path, {{"a", view(values, tensor::DType::f32, {100})}});
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::filesystem::resize_file(path, file.size() - 100);
  expect_error(ErrorKind::data, {"file.safetensors", "too early"},
               [&] { floats_of(file, file.tensors()[0]); });
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_an_error_with_path_and_reason) {
  std::vector<float> values(1000, 1.5f);
  const test::FileSizeLimit limit(2000);
  expect_error(ErrorKind::internal, {"file.safetensors", "File too large"}, [&] {
    write_safetensors(dir / "file.safetensors", {{"a", view(values, tensor::DType::f32, {1000})}});
  });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
