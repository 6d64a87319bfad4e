#include "stages/data/corpus_encoder.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "stages/storage/input_file.h"

namespace troupe::stages {
namespace {

/// Bytes of text in a batch per thread. They take some tenths of a second, during which no progress
/// is reported.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;

}  // namespace

CorpusEncoder::CorpusEncoder(const Tokenizer& tokenizer, EncodeOptions options,
                             std::uint64_t total_bytes, Use use)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      total_bytes_(total_bytes),
      use_(std::move(use)),
      newline_(tokenizer.encode("\n")) {}

void CorpusEncoder::add(const Piece& piece, Ends ends) {
  std::string text(piece.after_newline ? "\n" : "");
  text += piece.text;
  batch_.push_back(
      {.text = std::move(text), .after_newline = piece.after_newline, .ends = ends, .ids = {}});
  batch_bytes_ += piece.text.size();
  if (batch_bytes_ >= kBatchBytes * static_cast<std::size_t>(options_.threads)) encode_batch();
}

void CorpusEncoder::finish() {
  encode_batch();
  if (options_.progress) options_.progress(total_bytes_, total_bytes_);
}

/// The ids of a text do not depend on what precedes its newline, unless the vocabulary has a piece
/// that spans the newline. In that case the ids do not begin with those of a newline.
void CorpusEncoder::encode(Text& text) const {
  if (text.text.empty()) return;
  text.ids = tokenizer_.encode(text.text);
  if (!text.after_newline) return;
  if (text.ids.size() >= newline_.size() &&
      std::equal(newline_.begin(), newline_.end(), text.ids.begin()))
    text.ids.erase(text.ids.begin(), text.ids.begin() + std::ssize(newline_));
  else
    text.ids = tokenizer_.encode(std::string_view(text.text).substr(1));
}

void CorpusEncoder::encode_batch() {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(options_.threads));
  const auto work = [&](std::exception_ptr& error) {
    try {
      for (std::size_t i; (i = next++) < batch_.size();) encode(batch_[i]);
    } catch (...) {
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;  // they work beside this thread
    const std::size_t wanted = std::min(errors.size(), batch_.size());
    for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work, std::ref(errors[i]));
    work(errors[0]);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  for (const Text& text : batch_) use_(text.ids, text.ends);
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
