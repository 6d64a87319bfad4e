#include "stages/corpus/text/text_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <span>

#include "stages/corpus/tokenizers/text/utf8.h"
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

/// Whether a text begins with a character that is no white space.
bool begins_visibly(std::string_view text) {
  return !text.empty() && !is_white_space(first_char(valid_utf8(text.substr(0, 4))));
}

bool ends_visibly(std::string_view text) {
  if (text.empty()) return false;
  const std::string end =
      valid_utf8(text.substr(text.size() - std::min<std::size_t>(4, text.size())));
  return !is_white_space(last_char(end));
}

/// Bytes before the last cut of a text that goes on; 0 if it has none.
std::size_t last_cut(std::string_view text, Cuts cuts) {
  if (cuts == Cuts::nowhere) return 0;
  const std::string_view complete = text.substr(0, text.size() - incomplete_tail(text));
  std::size_t newline = complete.rfind('\n');
  if (cuts == Cuts::anywhere) {
    if (newline != std::string_view::npos) return newline + 1;
    return complete.empty() ? text.size() : complete.size();
  }
  for (; newline != std::string_view::npos; newline = complete.substr(0, newline).rfind('\n'))
    if (begins_visibly(complete.substr(newline + 1)) &&
        (cuts == Cuts::at_lines || ends_visibly(complete.substr(0, newline))))
      return newline + 1;
  return 0;
}

/// Calls `use` for the pieces of a document of `size` bytes, of which window_at(begin, bytes) gives
/// a part.
template <typename WindowAt>
void divide(std::uint64_t size, Cuts cuts, const WindowAt& window_at, const UsePiece& use) {
  Place place = Place::start;
  for (std::uint64_t begin = 0, bytes = 0; begin < size; begin += bytes) {
    std::string_view window;
    bytes = 0;
    for (std::uint64_t wanted = kPieceBytes; bytes == 0; wanted *= 2) {
      const std::uint64_t left = size - begin;
      window = window_at(begin, std::min(wanted, left));
      bytes = wanted >= left ? left : last_cut(window, cuts);
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

void for_each_piece(const std::filesystem::path& path, Cuts cuts, const UsePiece& use) {
  const InputFile file = InputFile::open(path);
  std::string window;
  const auto window_at = [&](std::uint64_t begin, std::uint64_t bytes) {
    window.resize(bytes);
    file.read(begin, std::as_writable_bytes(std::span(window)));
    return std::string_view(window);
  };
  divide(file.size(), cuts, window_at, use);
}

void for_each_piece_of(std::string_view text, Cuts cuts, const UsePiece& use) {
  divide(
      text.size(), cuts,
      [text](std::uint64_t begin, std::uint64_t bytes) { return text.substr(begin, bytes); }, use);
}

}  // namespace troupe::stages
