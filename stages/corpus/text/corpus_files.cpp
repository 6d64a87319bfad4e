#include "stages/corpus/text/corpus_files.h"

#include <fmt/format.h>

#include <optional>

#include "stages/corpus/chat/chat_template.h"
#include "stages/corpus/text/file_kind.h"
#include "stages/corpus/text/json_elements.h"
#include "stages/corpus/text/json_line.h"
#include "stages/corpus/text/record.h"
#include "stages/corpus/text/text_files.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// Adds the records of a file to an encoder.
class RecordReader {
 public:
  RecordReader(const std::string& path, LossOn loss_on, const TextRules& rules,
               CorpusEncoder& encoder, CorpusReading& reading)
      : path_(path), loss_on_(loss_on), rules_(rules), encoder_(encoder), reading_(reading) {}

  void add(const JsonElement& element) {
    const auto place = [&](const Error& error) {
      return fmt::format("{}:{}: {}", path_, element.line, error.what());
    };
    broken_.skip_to(element.byte);
    broken_.add(element.text);
    std::optional<Record> record;
    try {
      record = record_of(parse_json_line(element.text), loss_on_, rules_);
    } catch (const Error& error) {
      return refuse(place(error));
    }
    try {
      open_template(*record);  // what is wrong with it is no fault of the line
    } catch (const Error& error) {
      throw Error(error.kind(), place(error));
    }
    try {
      add(*record);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      return refuse(place(error));
    }
    ++reading_.records.try_emplace(std::string(record->layout)).first->second;
  }
  void finish() const { encoder_.warn(broken_.sentence(path_)); }

 private:
  void refuse(const std::string& fault) {
    if (rules_.on_bad_line == BadLines::stop) throw Error(ErrorKind::data, fault);
    if (++reading_.skipped == 1) reading_.first_skipped = fault;
  }

  void open_template(const Record& record) {
    if (!template_ && std::holds_alternative<Conversation>(record.content))
      template_ = ChatTemplate::of_tokenizer(encoder_.tokenizer().name(), rules_.date);
  }

  void add(const Record& record) {
    if (const auto* text = std::get_if<std::string>(&record.content))
      return add_text(Opening::text, "", *text);
    if (const auto* text = std::get_if<PromptedText>(&record.content))
      return add_text(Opening::prompt, text->prompt, text->response);
    const auto& conversation = std::get<Conversation>(record.content);
    if (loss_on_ == LossOn::response)
      return encoder_.add_conversation(template_->parts_of(conversation));
    check_all_weigh(conversation);
    encoder_.add_conversation({.text = template_->text_of(conversation), .ends = {}});
  }

  void add_text(Opening opening, const std::string& prompt, const std::string& text);

  const std::string& path_;
  const LossOn loss_on_;
  const TextRules& rules_;
  CorpusEncoder& encoder_;
  CorpusReading& reading_;
  std::optional<ChatTemplate> template_;  ///< once there is a conversation
  BrokenText broken_;
};

void RecordReader::add_text(Opening opening, const std::string& prompt, const std::string& text) {
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

void add_file(const std::string& path, LossOn loss_on, const TextRules& rules,
              CorpusEncoder& encoder, CorpusReading& reading) {
  const FileLook look = look_at_file(path, encoder.tokenizer().name());
  encoder.warn(look.doubt);
  if (look.kind == FileKind::text) return add_text(path, encoder);
  RecordReader reader(path, loss_on, rules, encoder, reading);
  const auto add = [&](const JsonElement& element) { reader.add(element); };
  look.kind == FileKind::json_lines ? for_each_line(path, add) : for_each_element(path, add);
  reader.finish();
}

}  // namespace troupe::stages
