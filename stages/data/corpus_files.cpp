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

/// A line's text, after what it answers.
struct Line {
  std::string prompt, text;
};

/// The string of a member; none if it is missing or something else.
const std::string* string_of(const nlohmann::json& object, const char* member) {
  const auto found = object.find(member);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

/// Parses a line of JSON, in which every invalid part of UTF-8 counts as one U+FFFD.
Line parse_line(std::string_view line, LossOn loss_on, const std::string& place) {
  const auto document =
      nlohmann::json::parse(valid_utf8(line), nullptr, /*allow_exceptions=*/false);
  if (document.is_object()) {
    const std::string* text = string_of(document, "text");
    if (text && loss_on == LossOn::all) return {.prompt = "", .text = *text};
    const std::string* prompt = string_of(document, "prompt");
    const std::string* response = string_of(document, "response");
    if (prompt && response) return {.prompt = *prompt, .text = *response};
    if (document.contains("messages"))
      throw Error(ErrorKind::data,
                  fmt::format("{}: \"messages\" are not read, because how they become a text is "
                              "each model's own; write them as a \"prompt\" and a \"response\"",
                              place));
  }
  throw Error(
      ErrorKind::data,
      fmt::format("{}: expected a JSON object with {}the strings \"prompt\" and \"response\"",
                  place, loss_on == LossOn::all ? "a string \"text\", or " : ""));
}

void add_line(const Line& line, CorpusEncoder& encoder) {
  encoder.begin_document();
  for_each_piece_of(line.prompt, encoder.cuts(), [&](const Piece& piece) { encoder.add(piece); });
  encoder.end_prompt();
  // What follows a prompt is encoded as what continues a document, and by itself: the prompt then
  // has the ids that it has when the model is asked to answer it.
  for_each_piece_of(line.text, encoder.cuts(), [&](const Piece& piece) {
    encoder.add(
        {.text = piece.text, .place = line.prompt.empty() ? piece.place : Place::after_newline});
  });
  encoder.end_document();
}

void add_json_lines(const std::string& path, LossOn loss_on, CorpusEncoder& encoder) {
  InputFile::open(path);  // throws with the reason if it cannot be read
  std::ifstream file(path, std::ios::binary);
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number)
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      add_line(parse_line(line, loss_on, fmt::format("{}:{}", path, number)), encoder);
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

void add_file(const std::string& path, LossOn loss_on, CorpusEncoder& encoder) {
  is_json_lines(path) ? add_json_lines(path, loss_on, encoder) : add_text(path, encoder);
}

}  // namespace troupe::stages
