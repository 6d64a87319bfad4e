#include "stages/data/text_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <span>

#include "stages/storage/input_file.h"
#include "stages/tokenizers/utf8.h"
#include "tensor/error.h"

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

/// Number of bytes of a full window before the cut.
std::size_t piece_length(std::string_view window) {
  const std::size_t newline = window.rfind('\n');
  if (newline != std::string_view::npos) return newline + 1;
  const std::size_t complete = window.size() - incomplete_tail(window);
  return complete > 0 ? complete : window.size();
}

/// A format of corpora that cannot be read as text.
struct ForeignFormat {
  std::string_view suffix;
  std::string_view hint;
};
constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kExport = "write its text as .txt or .jsonl first";
constexpr std::string_view kTokens = "tokens stand alone, as the .bin with its .idx";
constexpr std::array<ForeignFormat, 14> kForeign{{{".bz2", kUnpack},
                                                  {".gz", kUnpack},
                                                  {".tar", kUnpack},
                                                  {".xz", kUnpack},
                                                  {".zip", kUnpack},
                                                  {".zst", kUnpack},
                                                  {".arrow", kExport},
                                                  {".npy", kExport},
                                                  {".npz", kExport},
                                                  {".parquet", kExport},
                                                  {".safetensors", kExport},
                                                  {".bin", kTokens},
                                                  {".idx", kTokens},
                                                  {".tokens", kTokens}}};

}  // namespace

std::vector<std::string> expand_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    std::vector<std::string> paths = matches_of(pattern);
    // A name with brackets is a pattern that does not match itself; a .bin/.idx prefix is no file.
    if (paths.empty() && (file_exists(pattern) || file_exists(pattern + ".idx")))
      paths.push_back(pattern);
    if (paths.empty())
      throw Error(ErrorKind::data, fmt::format("data file {}: no such file", pattern));
    files.insert(files.end(), paths.begin(), paths.end());
  }
  return files;
}

bool is_json_lines(const std::string& path) {
  return path.ends_with(".jsonl");
}

void require_text(const std::string& path) {
  for (const ForeignFormat& format : kForeign)
    if (path.ends_with(format.suffix))
      throw Error(ErrorKind::data,
                  fmt::format("{}: a {} file holds no text; {}", path, format.suffix, format.hint));
}

void for_each_piece(const std::filesystem::path& path, const UsePiece& use) {
  const InputFile file = InputFile::open(path);
  std::string window;
  bool after_newline = false;
  for (std::uint64_t begin = 0; begin < file.size(); begin += window.size()) {
    window.resize(std::min<std::uint64_t>(kPieceBytes, file.size() - begin));
    file.read(begin, std::as_writable_bytes(std::span(window)));
    if (begin + window.size() < file.size()) window.resize(piece_length(window));
    use({.text = window, .after_newline = after_newline});
    after_newline = window.ends_with('\n');
  }
}

void for_each_piece_of(std::string_view text, const UsePiece& use) {
  bool after_newline = false;
  while (!text.empty()) {
    std::string_view window = text.substr(0, kPieceBytes);
    if (window.size() < text.size()) window = window.substr(0, piece_length(window));
    use({.text = window, .after_newline = after_newline});
    after_newline = window.ends_with('\n');
    text.remove_prefix(window.size());
  }
}

}  // namespace troupe::stages
