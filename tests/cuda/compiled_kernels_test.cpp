// What nvcc made of the kernels, read from its objects, for which no GPU is needed.

#include <zstd.h>

#include <algorithm>
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

/// An object with the code for GPUs in it that is compressed, all frames of zstd (RFC 8878), as it
/// was. A frame may hold a text of it as it is, too.
std::string unpacked(std::string_view object) {
  constexpr std::string_view kFrame = "\x28\xb5\x2f\xfd";
  std::string content;
  while (!object.empty()) {
    const auto at = std::min(object.find(kFrame), object.size());
    content += object.substr(0, at);
    object.remove_prefix(at);
    if (object.empty()) break;
    const auto size = ZSTD_getFrameContentSize(object.data(), object.size());
    const auto packed = ZSTD_findFrameCompressedSize(object.data(), object.size());
    const bool is_frame = !ZSTD_isError(size) && !ZSTD_isError(packed);
    const std::size_t before = content.size();
    if (is_frame) {
      content.resize(before + size);
      BOOST_REQUIRE_EQUAL(ZSTD_decompress(&content[before], size, object.data(), packed), size);
    }
    object.remove_prefix(is_frame ? packed : kFrame.size());
  }
  return content;
}

}  // namespace

/// How often `part` is in `content`.
std::size_t count_of(std::string_view part, std::string_view content) {
  std::size_t count = 0;
  for (auto at = content.find(part); at != content.npos; at = content.find(part, at + 1)) ++count;
  return count;
}

// ptxas leaves the options that it was given in what it made, once for each architecture. With
// these, it refuses a kernel of which a register does not fit (the test cuda.spills_are_refused).
BOOST_AUTO_TEST_CASE(every_kernel_is_compiled_for_every_gpu_since_ampere_and_without_spills) {
  const std::vector<const char*> architectures{"-arch sm_80 ", "-arch sm_90a ", "-arch sm_100 ",
                                               "-arch sm_120 "};
  const std::vector<std::string> found = objects();
  BOOST_TEST(found.size() > 5u);
  for (const std::string& path : found) {
    const std::string content = unpacked(content_of(path));
    for (const char* option : architectures)
      BOOST_TEST(count_of(option, content) == 1u, path << " is without " << option);
    for (const char* option : {"-warn-spills ", "-Werror "})
      BOOST_TEST(count_of(option, content) == architectures.size(), path << " " << option);
    // The text of a program for GPUs that come later.
    BOOST_TEST(count_of(".target sm_120", content) == 1u, path << " is without PTX");
  }
}

BOOST_AUTO_TEST_SUITE_END()
