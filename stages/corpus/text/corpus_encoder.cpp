#include "stages/corpus/text/corpus_encoder.h"

#include <algorithm>
#include <utility>

#include "stages/storage/input_file.h"
#include "stages/storage/parallel_jobs.h"

namespace troupe::stages {
namespace {

/// Bytes of text in a batch per thread. They take some tenths of a second, during which no progress
/// is reported.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
/// Texts in a batch at most: it bounds the memory that many short ones take.
constexpr std::size_t kBatchTexts = std::size_t{1} << 18;

}  // namespace

EncodeOptions for_training(EncodeOptions options, const Tokenizer& tokenizer, Documents documents,
                           const TextRules& rules) {
  options.marks = marks_of(tokenizer, rules, documents);
  return options;
}

CorpusEncoder::CorpusEncoder(const Tokenizer& tokenizer, EncodeOptions options,
                             std::uint64_t total_bytes, Use use)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      total_bytes_(total_bytes),
      use_(std::move(use)) {}

void CorpusEncoder::begin_document(Opening opening) {
  const auto& [before, after] =
      opening == Opening::prompt ? options_.marks.prompts : options_.marks.texts;
  add_ids(before);
  end_ = after;
}

void CorpusEncoder::add(const Piece& piece) {
  add_text({.text = std::string(piece.text), .place = piece.place});
}

void CorpusEncoder::add_conversation(const ChatText& chat) {
  end_.clear();
  add_text({.text = chat.text, .parts = chat.ends});
  end_prompt();  // what is behind the last response is read as well
  end_document();
}

void CorpusEncoder::add_text(Text text) {
  batch_bytes_ += text.text.size();
  batch_.push_back(std::move(text));
  if (batch_bytes_ >= kBatchBytes * static_cast<std::size_t>(options_.threads) ||
      batch_.size() >= kBatchTexts)
    encode_batch();
}

void CorpusEncoder::end_document() {
  add_ids(end_);
  add_ids(options_.append);
  end_sequence();
  batch_.push_back({.ends = Ends::document});
}

void CorpusEncoder::finish() {
  encode_batch();
  if (options_.progress) options_.progress(total_bytes_, total_bytes_);
}

void CorpusEncoder::encode(Text& text) const {
  if (text.text.empty()) return;
  text.ids = tokenizer_.encode(text.text, text.place);
  text.parts = tokenizer_.tokens_before(text.text, text.ids, text.parts);
}

void CorpusEncoder::hand_on(const Text& text) const {
  const std::span<const std::int32_t> ids = text.ids;
  std::size_t begin = 0;
  Ends ends = Ends::prompt;
  for (const std::size_t end : text.parts) {
    use_(ids.subspan(begin, end - begin), ends);
    begin = end;
    ends = ends == Ends::prompt ? Ends::response : Ends::prompt;
  }
  use_(ids.subspan(begin), text.ends);
}

void CorpusEncoder::encode_batch() {
  carry_out(options_.threads, batch_.size(),
            [this]() -> Job { return [this](std::size_t number) { encode(batch_[number]); }; });
  for (const Text& text : batch_) hand_on(text);
  done_bytes_ = std::min(done_bytes_ + batch_bytes_, total_bytes_);
  batch_.clear();
  batch_bytes_ = 0;
  if (options_.progress && done_bytes_ < total_bytes_) options_.progress(done_bytes_, total_bytes_);
}

std::uint64_t size_of_files(const std::vector<std::string>& files) {
  std::uint64_t bytes = 0;
  for (const std::string& file : files) bytes += InputFile::open(file).size();
  return bytes;
}

}  // namespace troupe::stages
