#include "stages/corpus/text/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include "stages/corpus/text/indexed_dataset.h"
#include "stages/corpus/text/json_line.h"
#include "stages/corpus/text/unpacked_file.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using namespace std::string_view_literals;

/// The first bytes that are looked at. A longer first line of JSON is known by its beginning.
constexpr std::uint64_t kHeadBytes = std::uint64_t{1} << 16;

constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kExport = "write its text as .txt or .jsonl first";
constexpr std::string_view kTokens = "tokens stand alone, as the .bin with its .idx";

/// Endings of names, in lower case, of files that hold no text. Where one command makes JSON lines
/// of them, `hint` is the call of pandas that reads them.
struct ForeignEnding {
  std::string_view ending;
  std::string_view hint;
};
constexpr std::string_view kPandas = "read_";
constexpr std::array kForeignEndings = std::to_array<ForeignEnding>({{".7z", kUnpack},
                                                                     {".br", kUnpack},
                                                                     {".bz2", kUnpack},
                                                                     {".lz4", kUnpack},
                                                                     {".lzma", kUnpack},
                                                                     {".rar", kUnpack},
                                                                     {".tar", kUnpack},
                                                                     {".tgz", kUnpack},
                                                                     {".z", kUnpack},
                                                                     {".zip", kUnpack},
                                                                     {".arrow", kExport},
                                                                     {".avro", kExport},
                                                                     {".csv", "read_csv"},
                                                                     {".db", kExport},
                                                                     {".doc", kExport},
                                                                     {".docx", kExport},
                                                                     {".epub", kExport},
                                                                     {".feather", "read_feather"},
                                                                     {".h5", kExport},
                                                                     {".npy", kExport},
                                                                     {".npz", kExport},
                                                                     {".ods", "read_excel"},
                                                                     {".odt", kExport},
                                                                     {".orc", "read_orc"},
                                                                     {".parquet", "read_parquet"},
                                                                     {".pdf", kExport},
                                                                     {".pickle", kExport},
                                                                     {".pkl", kExport},
                                                                     {".pt", kExport},
                                                                     {".rtf", kExport},
                                                                     {".safetensors", kExport},
                                                                     {".sqlite", kExport},
                                                                     {".tsv", "read_table"},
                                                                     {".xls", "read_excel"},
                                                                     {".xlsx", "read_excel"},
                                                                     {".bin", kTokens},
                                                                     {".idx", kTokens},
                                                                     {".tokens", kTokens}});

/// Endings of names of files that are unpacked while they are read.
constexpr std::array<std::string_view, 3> kPackedEndings{".gz", ".zst", ".xz"};

/// First bytes of files that hold no text.
struct ForeignBytes {
  std::string_view bytes;
  std::string_view what;
  std::string_view hint;
};
constexpr std::string_view kConvert = "convert it to UTF-8, as with iconv -t UTF-8";
constexpr std::array kForeignBytes =
    std::to_array<ForeignBytes>({{"\x1f\x9d"sv, "packed by compress", kUnpack},
                                 {"BZh91AY&SY"sv, "packed by bzip2", kUnpack},
                                 {"\x04\x22\x4d\x18"sv, "packed by lz4", kUnpack},
                                 {"7z\xbc\xaf"sv, "packed by 7-Zip", kUnpack},
                                 {"PK\x03\x04"sv, "packed by zip", kUnpack},
                                 {"Rar!\x1a\x07"sv, "packed by RAR", kUnpack},
                                 {"PAR1"sv, "Parquet", "read_parquet"},
                                 {"ARROW1"sv, "Arrow", "read_feather"},
                                 {"FEA1"sv, "Feather", "read_feather"},
                                 {"\x93NUMPY"sv, "an array of NumPy", kExport},
                                 {"\x89HDF"sv, "HDF5", kExport},
                                 {"SQLite format 3"sv, "a database of SQLite", kExport},
                                 {"%PDF-"sv, "PDF", kExport},
                                 {"{\\rtf"sv, "RTF", kExport},
                                 {"\xff\xfe"sv, "in UTF-16 or UTF-32", kConvert},
                                 {"\xfe\xff"sv, "in UTF-16", kConvert}});

constexpr std::array<std::string_view, 5> kJsonLines{".json", ".jsonl", ".jsonlines", ".ldjson",
                                                     ".ndjson"};

[[noreturn]] void refuse(const std::string& path, std::string_view what, std::string_view hint) {
  if (!hint.starts_with(kPandas))
    throw Error(ErrorKind::data, fmt::format("{}: {}; {}", path, what, hint));
  throw Error(ErrorKind::data,
              fmt::format("{0}: {1}; python3 -c 'import pandas; pandas.{2}(\"{0}\").to_json("
                          "\"{3}\", orient=\"records\", lines=True)' makes JSON lines of it",
                          path, what, hint,
                          std::filesystem::path(path).replace_extension(".jsonl").string()));
}

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

/// The first bytes of a file that is unpacked, and whether it has more.
std::pair<std::string, bool> head_of(const std::string& path) {
  UnpackedFile file(path);
  std::string head(kHeadBytes + 1, '\0');
  head.resize(file.read(head));
  const bool is_cut = head.size() > kHeadBytes;
  if (is_cut) head.pop_back();
  return {head, is_cut};
}

/// The name of a file without the ending that says that it is packed, which must be so.
std::string unpacked_name(const std::string& path) {
  std::string name = in_lower_case(std::filesystem::path(path).filename().string());
  const auto* const packed = std::ranges::find_if(
      kPackedEndings, [&](std::string_view ending) { return name.ends_with(ending); });
  if (packed == kPackedEndings.end()) return name;
  const InputFile file = InputFile::open(path);
  std::string head(std::min<std::uint64_t>(file.size(), 8), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  if (packed_by(head).empty())
    refuse(path,
           fmt::format("a {} file holds no text as it is, and this one is not packed", *packed),
           "give it the name of what it holds");
  name.resize(name.size() - packed->size());
  return name;
}

void refuse_foreign(const std::string& path, std::string_view name, std::string_view head) {
  for (const ForeignEnding& foreign : kForeignEndings)
    if (name.ends_with(foreign.ending))
      refuse(path, fmt::format("a {} file holds no text", foreign.ending), foreign.hint);
  for (const ForeignBytes& foreign : kForeignBytes)
    if (head.starts_with(foreign.bytes))
      refuse(path, fmt::format("its first bytes say that it is {}", foreign.what), foreign.hint);
  if (head.size() > 262 && head.substr(257, 5) == "ustar")
    refuse(path, "its first bytes say that it is packed by tar", kUnpack);
  if (const auto zero = head.find('\0'); zero != head.npos)
    refuse(path,
           fmt::format("its byte {} is zero, as in no text: it is binary, or in UTF-16 or UTF-32",
                       zero + 1),
           kConvert);
}

/// Refuses a text of another encoding, in which hardly any character but ASCII happens to be UTF-8.
void refuse_other_encoding(const std::string& path, std::string_view head, bool is_cut) {
  constexpr std::int64_t kFew = 16;
  if (is_cut) head.remove_suffix(incomplete_tail(head));
  const Utf8Count count = count_utf8(head);
  if (count.invalid <= std::max(kFew, std::ssize(head) / 1000)) return;
  if (count.invalid <= count.wide) return;
  refuse(
      path,
      fmt::format("no text in UTF-8: {} places of its first {} bytes are none, the first at byte "
                  "{}",
                  count.invalid, head.size(), count.first_invalid + 1),
      "convert it, as with iconv -f LATIN1 -t UTF-8, or leave them out with iconv -c -f UTF-8 -t "
      "UTF-8");
}

/// Whether the first line is the header of a table that has a column of text.
bool begins_with_header(std::string_view head) {
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  constexpr std::array kColumns{"text"sv, "content"sv, "prompt"sv, "response"sv, "messages"sv};
  const auto end = head.find_first_of("\r\n");
  if (end == head.npos) return false;
  const std::string line = in_lower_case(std::string(head.substr(0, end)));
  for (const char separator : ",\t;|"sv) {
    bool names = line.find(separator) != line.npos, has_text = false;
    for (const auto part : std::views::split(line, separator)) {
      std::string_view name(part.begin(), part.end());
      if (name.size() > 2 && name.starts_with('"') && name.ends_with('"'))
        name = name.substr(1, name.size() - 2);
      names &= !name.empty() && name.find_first_not_of(kNameCharacters) == name.npos;
      has_text |= std::ranges::find(kColumns, name) != kColumns.end();
    }
    if (names && has_text) return true;
  }
  return false;
}

/// Whether a text begins as a list of JSON, but for one of numbers, which are footnotes in a text;
/// or as an object that is not empty.
bool begins_with_bracket(std::string_view head) {
  const auto next = head.find_first_not_of(" \t\r\n", 1);
  if (next == head.npos) return false;
  return (head[0] == '[' && "{[\""sv.find(head[next]) != std::string_view::npos) ||
         (head[0] == '{' && head[next] == '"');
}

/// What a file is that begins with JSON; none for text. Other JSON than objects in lines, or a list
/// of objects, is refused.
std::optional<FileKind> json_kind(const std::string& path, std::string_view head, bool is_cut) {
  if (!begins_with_bracket(head)) return std::nullopt;
  const std::string_view line = head.substr(0, head.find('\n'));
  if (head[0] == '{' && is_json(line, is_cut && line.size() == head.size()))
    return FileKind::json_lines;
  if (!begins_with_json(head, is_cut)) return std::nullopt;
  if (head[0] == '[' && head[head.find_first_not_of(" \t\r\n", 1)] == '{')
    return FileKind::json_list;
  if (head[0] == '[')
    refuse(path, "it is a list of JSON, but not of objects",
           fmt::format("jq -c '.[] | {{text: .}}' {} makes lines of one of texts", path));
  refuse(path, "it begins with JSON, but not with an object in a line of its own",
         fmt::format("jq -c . {} makes lines of it", path));
}

}  // namespace

FileLook look_at_file(const std::string& path, std::string_view tokenizer) {
  const std::string name = unpacked_name(path);
  const auto [bytes, is_cut] = head_of(path);
  refuse_foreign(path, name, bytes);
  if (tokenizer != kBytesTokenizer) refuse_other_encoding(path, bytes, is_cut);
  std::string_view head = bytes;
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  const auto ends = [&name](std::string_view ending) { return name.ends_with(ending); };
  const bool is_named = std::ranges::any_of(kJsonLines, ends);
  if (const auto kind = json_kind(path, head, is_cut))
    return {.kind = *kind,
            .doubt = *kind == FileKind::json_lines || is_named
                         ? ""
                         : path + ": begins as a list of JSON objects, and is read as that"};
  if (is_named) return {.kind = head.starts_with('[') ? FileKind::json_list : FileKind::json_lines};
  if (begins_with_header(head)) refuse(path, "its first line says that it is a table", kExport);
  if (head.starts_with("[{\"") || head.starts_with("{\""))
    return {.doubt = path + ": begins as JSON, but is none, and is read as text"};
  return {};
}

void require_responses(const std::string& path) {
  if (is_indexed_dataset(path) || file_kind(path) == FileKind::text)
    throw Error(
        ErrorKind::data,
        fmt::format("{}: no JSON lines, nor a list of JSON, with a \"prompt\" and a "
                    "\"response\", or \"messages\", in each object, which a loss on responses "
                    "takes",
                    path));
}

}  // namespace troupe::stages
