// What nvcc made of the kernels, read from its objects, for which no GPU is needed.

#include <zstd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(compiled_kernels_test)

namespace {

/// The objects of tensor/cuda/kernels, whose paths the build hands over.
std::vector<std::string> objects() {
  const char* paths = std::getenv("TROUPE_KERNEL_OBJECTS");
  BOOST_REQUIRE(paths);
  std::istringstream list(paths);
  std::vector<std::string> objects;
  for (std::string path; std::getline(list, path, ':');) objects.push_back(path);
  return objects;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(file, path << " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// An object, and behind it the code for GPUs in it that is compressed: all frames of zstd (RFC
/// 8878).
std::string unpacked(std::string_view object) {
  constexpr std::string_view kFrame = "\x28\xb5\x2f\xfd";
  std::string content(object);
  for (auto at = object.find(kFrame); at != object.npos; at = object.find(kFrame, at + 1)) {
    const auto size = ZSTD_getFrameContentSize(&object[at], object.size() - at);
    const auto packed = ZSTD_findFrameCompressedSize(&object[at], object.size() - at);
    if (ZSTD_isError(size) || ZSTD_isError(packed)) continue;  // not a frame
    const std::size_t before = content.size();
    content.resize(before + size);
    BOOST_REQUIRE_EQUAL(ZSTD_decompress(&content[before], size, &object[at], packed), size);
  }
  return content;
}

}  // namespace

// ptxas leaves the options that it was given in what it made. With these, it refuses a kernel of
// which a register does not fit (the test cuda.spills_are_refused).
BOOST_AUTO_TEST_CASE(every_kernel_is_compiled_for_hopper_and_without_spills) {
  const std::vector<std::string> found = objects();
  BOOST_TEST(found.size() > 5u);
  for (const std::string& path : found) {
    const std::string content = unpacked(content_of(path));
    for (const char* option : {"-arch sm_90a ", "-warn-spills ", "-Werror "}) {
      BOOST_TEST(content.find(option) != std::string::npos, path << " is without " << option);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
