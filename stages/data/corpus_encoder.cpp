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
/// Texts in a batch at most: it bounds the memory that many short ones take.
constexpr std::size_t kBatchTexts = std::size_t{1} << 18;

}  // namespace

CorpusEncoder::CorpusEncoder(const Tokenizer& tokenizer, EncodeOptions options,
                             std::uint64_t total_bytes, Use use)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      total_bytes_(total_bytes),
      use_(std::move(use)) {}

void CorpusEncoder::add(const Piece& piece) {
  batch_.push_back({.text = std::string(piece.text), .place = piece.place});
  batch_bytes_ += piece.text.size();
  if (batch_bytes_ >= kBatchBytes * static_cast<std::size_t>(options_.threads) ||
      batch_.size() >= kBatchTexts)
    encode_batch();
}

void CorpusEncoder::end_document() {
  add_ids(options_.frame.after);
  end_sequence();
  batch_.push_back({.ends = Ends::document});
}

void CorpusEncoder::finish() {
  encode_batch();
  if (options_.progress) options_.progress(total_bytes_, total_bytes_);
}

void CorpusEncoder::encode_batch() {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(options_.threads));
  const auto work = [&](std::exception_ptr& error) {
    try {
      for (std::size_t i; (i = next++) < batch_.size();)
        if (Text& text = batch_[i]; !text.text.empty())
          text.ids = tokenizer_.encode(text.text, text.place);
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
