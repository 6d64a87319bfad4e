#include "stages/data/corpus_files.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "stages/data/text_files.h"
#include "stages/storage/input_file.h"
#include "stages/tokenizers/utf8.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

/// Returns the member "text" of a line of JSON, in which every invalid part of UTF-8 counts as one
/// U+FFFD.
std::string text_of(std::string_view line, const std::string& file, std::int64_t number) {
  const auto document =
      nlohmann::json::parse(valid_utf8(line), nullptr, /*allow_exceptions=*/false);
  if (document.is_object() && document.contains("text") && document["text"].is_string())
    return document["text"].get<std::string>();
  throw Error(ErrorKind::data,
              fmt::format("{}:{}: expected a JSON object with a string \"text\"", file, number));
}

void add_json_lines(const std::string& path, CorpusEncoder& encoder) {
  InputFile::open(path);  // throws with the reason if it cannot be read
  std::ifstream file(path, std::ios::binary);
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    encoder.begin_document();
    for_each_piece_of(text_of(line, path, number), encoder.cuts(),
                      [&](const Piece& piece) { encoder.add(piece); });
    encoder.end_document();
  }
  if (file.bad()) throw Error(ErrorKind::data, fmt::format("{}: cannot read to its end", path));
}

void add_text(const std::string& path, CorpusEncoder& encoder) {
  encoder.begin_document();
  for_each_piece(path, encoder.cuts(), [&](const Piece& piece) {
    if (piece.place != Place::start) encoder.end_sequence();
    encoder.add(piece);
  });
  encoder.end_document();
}

}  // namespace

void add_file(const std::string& path, CorpusEncoder& encoder) {
  is_json_lines(path) ? add_json_lines(path, encoder) : add_text(path, encoder);
}

}  // namespace troupe::stages
