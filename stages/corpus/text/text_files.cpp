#include "stages/corpus/text/text_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <span>

#include "stages/corpus/text/unpacked_file.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result != 0 && result != GLOB_NOMATCH)
    throw Error(ErrorKind::data, fmt::format("{}: cannot search for files", pattern));
  std::sort(paths.begin(), paths.end());  // bytewise, not in the locale's order
  return paths;
}

/// Calls `use` for the pieces of a document of `size` bytes, of which window_at(begin, bytes) gives
/// a part.
template <typename WindowAt>
void divide(std::uint64_t size, const Cuts& cuts, const WindowAt& window_at, const UsePiece& use) {
  Place place = Place::start;
  for (std::uint64_t begin = 0, bytes = 0; begin < size; begin += bytes) {
    std::string_view window;
    bytes = 0;
    for (std::uint64_t wanted = kPieceBytes; bytes == 0; wanted *= 2) {
      const std::uint64_t left = size - begin;
      window = window_at(begin, std::min(wanted, left));
      bytes = wanted >= left ? left : cuts.last_in(window);
    }
    use({.text = window.substr(0, bytes), .place = place});
    place = Place::after_newline;
  }
}

}  // namespace

std::vector<std::string> expand_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    std::vector<std::string> paths = matches_of(pattern);
    // A name with brackets is a pattern that does not match itself; a .bin/.idx prefix is no file.
    if (paths.empty() && (file_exists(pattern) || file_exists(pattern + ".idx")))
      paths.push_back(pattern);
    if (paths.empty())
      throw Error(ErrorKind::data, fmt::format("data file {}: {}", pattern,
                                               why_unreadable(pattern, "no such file")));
    files.insert(files.end(), paths.begin(), paths.end());
  }
  return files;
}

void for_each_piece(const std::filesystem::path& path, const Cuts& cuts, const UsePiece& use) {
  UnpackedFile file(path.string());
  std::string window;  // what was read behind `first`
  std::uint64_t first = 0;
  const auto window_at = [&](std::uint64_t begin, std::uint64_t bytes) {
    window.erase(0, begin - first);
    first = begin;
    const std::size_t held = window.size();
    if (held < bytes) {
      window.resize(bytes);
      if (file.read(std::span(window).subspan(held)) < bytes - held)
        throw Error(ErrorKind::data, fmt::format("{}: changed while it was read", path.string()));
    }
    return std::string_view(window).substr(0, bytes);
  };
  divide(unpacked_size(path.string()), cuts, window_at, use);
}

void for_each_piece_of(std::string_view text, const Cuts& cuts, const UsePiece& use) {
  divide(
      text.size(), cuts,
      [text](std::uint64_t begin, std::uint64_t bytes) { return text.substr(begin, bytes); }, use);
}

}  // namespace troupe::stages
