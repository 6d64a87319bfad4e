#include "stages/data/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "stages/data/indexed_dataset.h"
#include "stages/storage/input_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

using namespace std::string_view_literals;

/// The first bytes that are looked at. A longer first line of JSON is known by its ending alone.
constexpr std::uint64_t kHeadBytes = std::uint64_t{1} << 16;

constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kExport = "write its text as .txt or .jsonl first";
constexpr std::string_view kTokens = "tokens stand alone, as the .bin with its .idx";

/// Endings of names, in lower case, of files that hold no text.
struct ForeignEnding {
  std::string_view ending;
  std::string_view hint;
};
constexpr std::array<ForeignEnding, 33> kForeignEndings{
    {{".7z", kUnpack},      {".bz2", kUnpack},     {".gz", kUnpack},          {".lz4", kUnpack},
     {".rar", kUnpack},     {".tar", kUnpack},     {".tgz", kUnpack},         {".xz", kUnpack},
     {".zip", kUnpack},     {".zst", kUnpack},     {".arrow", kExport},       {".avro", kExport},
     {".csv", kExport},     {".db", kExport},      {".docx", kExport},        {".epub", kExport},
     {".feather", kExport}, {".h5", kExport},      {".npy", kExport},         {".npz", kExport},
     {".orc", kExport},     {".parquet", kExport}, {".pdf", kExport},         {".pickle", kExport},
     {".pkl", kExport},     {".pt", kExport},      {".safetensors", kExport}, {".sqlite", kExport},
     {".tsv", kExport},     {".xlsx", kExport},    {".bin", kTokens},         {".idx", kTokens},
     {".tokens", kTokens}}};

/// First bytes of files that hold no text.
struct ForeignBytes {
  std::string_view bytes;
  std::string_view what;
  std::string_view hint;
};
constexpr std::string_view kConvert = "convert it to UTF-8, as with iconv -t UTF-8";
constexpr std::array<ForeignBytes, 17> kForeignBytes{
    {{"\x1f\x8b"sv, "packed by gzip", kUnpack},
     {"BZh91AY&SY"sv, "packed by bzip2", kUnpack},
     {"\xfd"
      "7zXZ"sv,
      "packed by xz", kUnpack},
     {"\x28\xb5\x2f\xfd"sv, "packed by zstd", kUnpack},
     {"\x04\x22\x4d\x18"sv, "packed by lz4", kUnpack},
     {"7z\xbc\xaf"sv, "packed by 7-Zip", kUnpack},
     {"PK\x03\x04"sv, "packed by zip", kUnpack},
     {"Rar!\x1a\x07"sv, "packed by RAR", kUnpack},
     {"PAR1"sv, "Parquet", kExport},
     {"ARROW1"sv, "Arrow", kExport},
     {"FEA1"sv, "Feather", kExport},
     {"\x93NUMPY"sv, "an array of NumPy", kExport},
     {"\x89HDF"sv, "HDF5", kExport},
     {"SQLite format 3"sv, "a database of SQLite", kExport},
     {"%PDF-"sv, "PDF", kExport},
     {"\xff\xfe"sv, "in UTF-16 or UTF-32", kConvert},
     {"\xfe\xff"sv, "in UTF-16", kConvert}}};

constexpr std::array<std::string_view, 4> kJsonLines{".jsonl", ".ndjson", ".jsonlines", ".ldjson"};

[[noreturn]] void refuse(const std::string& path, std::string_view what, std::string_view hint) {
  throw Error(ErrorKind::data, fmt::format("{}: {}; {}", path, what, hint));
}

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string head_of(const std::string& path) {
  const InputFile file = InputFile::open(path);
  std::string head(std::min(file.size(), kHeadBytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  return head;
}

/// Whether every second byte is mostly zero, as in UTF-16 of Latin letters without a mark.
bool looks_like_utf16(std::string_view head) {
  if (head.size() < 4) return false;
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < head.size(); ++i) zeros[i % 2] += head[i] == '\0';
  const std::size_t half = head.size() / 2;
  return std::ranges::any_of(zeros, [half](std::size_t n) { return 4 * n >= 3 * half; }) &&
         std::ranges::any_of(zeros, [half](std::size_t n) { return 4 * n < half; });
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
  if (looks_like_utf16(head)) refuse(path, "it is in UTF-16", kConvert);
}

/// Whether the first line is an object with a document's members.
bool begins_with_document(std::string_view head) {
  if (!head.starts_with('{')) return false;
  const auto line = nlohmann::json::parse(head.substr(0, head.find('\n')), nullptr,
                                          /*allow_exceptions=*/false);
  const auto has = [&line](const char* member) { return line.contains(member); };
  return line.is_object() && (has("text") || has("messages") || (has("prompt") && has("response")));
}

}  // namespace

FileKind file_kind(const std::string& path) {
  const std::string name = in_lower_case(std::filesystem::path(path).filename().string());
  const std::string bytes = head_of(path);
  refuse_foreign(path, name, bytes);
  const auto ends = [&name](std::string_view ending) { return name.ends_with(ending); };
  if (std::ranges::any_of(kJsonLines, ends)) return FileKind::json_lines;
  std::string_view head = bytes;
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  if (ends(".json")) {
    if (head.starts_with('['))
      refuse(path, "it is a list of JSON, not an object in each line",
             fmt::format("jq -c '.[]' {} makes lines of it", path));
    return FileKind::json_lines;
  }
  return begins_with_document(head) ? FileKind::json_lines : FileKind::text;
}

void require_responses(const std::string& path) {
  if (is_indexed_dataset(path) || file_kind(path) != FileKind::json_lines)
    throw Error(ErrorKind::data,
                fmt::format("{}: no .jsonl file with a \"prompt\" and a \"response\", or "
                            "\"messages\", in each line, which a loss on responses takes",
                            path));
}

}  // namespace troupe::stages
