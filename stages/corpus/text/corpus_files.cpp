#include "stages/corpus/text/corpus_files.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "stages/corpus/chat/chat_template.h"
#include "stages/corpus/text/file_kind.h"
#include "stages/corpus/text/json_line.h"
#include "stages/corpus/text/text_files.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

/// The string of a member; none if it is missing or something else.
const std::string* string_of(const json& object, const char* member) {
  const auto found = object.find(member);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

/// Adds the lines of a file of JSON lines to an encoder.
class LineReader {
 public:
  LineReader(LossOn loss_on, CorpusEncoder& encoder) : loss_on_(loss_on), encoder_(encoder) {}

  void add(std::string_view line) {
    const json document = parse_json_line(line);
    if (!document.is_object()) refuse();
    const std::string* text = string_of(document, "text");
    if (text && loss_on_ == LossOn::all) return add_text(Opening::text, "", *text);
    check_weighs(document);
    const std::string* prompt = string_of(document, "prompt");
    const std::string* response = string_of(document, "response");
    if (prompt && response) return add_text(Opening::prompt, *prompt, *response);
    if (!document.contains("messages")) refuse();
    if (!template_) template_ = ChatTemplate::of_tokenizer(encoder_.tokenizer().name());
    const json& messages = document["messages"];
    if (loss_on_ == LossOn::all) {
      check_all_weigh(messages);
      encoder_.add_conversation({.text = template_->text_of(messages), .ends = {}});
    } else {
      encoder_.add_conversation(template_->parts_of(messages));
    }
  }

 private:
  /// A weight beside "messages" or a "response" would be one of the whole line.
  static void check_weighs(const json& document) {
    const json weight = document.value("weight", json(1));
    if (!weight.is_null() && weight != 1)
      throw Error(ErrorKind::data,
                  fmt::format("has the \"weight\" {} beside what it trains, which is not "
                              "supported: only an object of \"messages\" may have one, 0 or 1",
                              weight.dump()));
  }

  [[noreturn]] void refuse() const {
    throw Error(ErrorKind::data,
                fmt::format("expected a JSON object with {}the strings \"prompt\" and "
                            "\"response\", or a list \"messages\"",
                            loss_on_ == LossOn::all ? "a string \"text\", " : ""));
  }

  void add_text(Opening opening, const std::string& prompt, const std::string& text);

  const LossOn loss_on_;
  CorpusEncoder& encoder_;
  std::optional<ChatTemplate> template_;  ///< once a line has messages
};

void LineReader::add_text(Opening opening, const std::string& prompt, const std::string& text) {
  encoder_.begin_document(opening);
  for_each_piece_of(prompt, encoder_.cuts(), [&](const Piece& piece) { encoder_.add(piece); });
  encoder_.end_prompt();
  // What follows a prompt is encoded as what continues a document, and by itself: the prompt then
  // has the ids that it has when the model is asked to answer it.
  for_each_piece_of(text, encoder_.cuts(), [&](const Piece& piece) {
    encoder_.add(
        {.text = piece.text, .place = prompt.empty() ? piece.place : Place::after_newline});
  });
  encoder_.end_document();
}

void add_json_lines(const std::string& path, LossOn loss_on, CorpusEncoder& encoder) {
  InputFile::open(path);  // throws with the reason if it cannot be read
  std::ifstream file(path, std::ios::binary);
  LineReader reader(loss_on, encoder);
  std::string line;
  BrokenText broken;
  for (std::int64_t number = 1; std::getline(file, line); ++number) try {
      broken.add(line);
      broken.add("\n");
      if (line.find_first_not_of(" \t\r") != std::string::npos) reader.add(line);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}:{}: {}", path, number, error.what()));
    }
  if (file.bad()) throw Error(ErrorKind::data, fmt::format("{}: cannot read to its end", path));
  encoder.warn(broken.sentence(path));
}

void add_text(const std::string& path, CorpusEncoder& encoder) {
  const bool takes_bytes = encoder.tokenizer().name() == kBytesTokenizer;
  BrokenText broken;
  encoder.begin_document(Opening::text);
  for_each_piece(path, encoder.cuts(), [&](const Piece& piece) {
    if (!takes_bytes) broken.add(piece.text);
    if (piece.place != Place::start) encoder.end_sequence();
    encoder.add(piece);
  });
  encoder.end_document();
  encoder.warn(broken.sentence(path));
}

}  // namespace

void BrokenText::add(std::string_view bytes) {
  if (!is_valid_utf8(bytes)) {
    const Utf8Count count = count_utf8(bytes);
    if (parts_ == 0) first_ = read_ + count.first_invalid + 1;
    parts_ += count.invalid;
  }
  read_ += bytes.size();
}

std::string BrokenText::sentence(const std::string& path) const {
  if (parts_ == 0) return "";
  return parts_ == 1 ? fmt::format("{}: byte {} is no UTF-8 and counts as U+FFFD", path, first_)
                     : fmt::format(
                           "{}: {} places are no UTF-8 and count as U+FFFD each, the first at byte "
                           "{}",
                           path, parts_, first_);
}

void add_file(const std::string& path, LossOn loss_on, CorpusEncoder& encoder) {
  file_kind(path, encoder.tokenizer().name()) == FileKind::json_lines
      ? add_json_lines(path, loss_on, encoder)
      : add_text(path, encoder);
}

}  // namespace troupe::stages
