#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/corpus_files.h"
#include "stages/corpus/text/file_kind.h"
#include "stages/corpus/text/indexed_dataset.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/storage/input_file.h"
#include "stages/storage/mapped_file.h"
#include "stages/storage/output_file.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// Smallest vocabulary whose ids Megatron stores in 32 bits.
constexpr int kFirstWideVocabulary = 65500;

/// Writes ids to the .bin and keeps what the .idx needs.
class DatasetWriter {
 public:
  DatasetWriter(OutputFile& bin, TokenWidth width) : tokens_(bin, width), width_(width) {}

  void add(std::span<const std::int32_t> ids, Ends ends) {
    tokens_.append(ids);
    if (ends == Ends::sequence) end_sequence();
    if (ends == Ends::document) boundaries_.push_back(static_cast<std::int64_t>(lengths_.size()));
  }

  /// XXH64 of the .bin.
  std::uint64_t sum() const { return tokens_.sum(); }
  void write_index(OutputFile& idx) const {
    const auto dtype = std::find_if(kDatasetDTypes.begin(), kDatasetDTypes.end(),
                                    [this](const DatasetDType& d) { return d.width == width_; });
    const std::uint64_t num_sequences = lengths_.size(), num_boundaries = boundaries_.size();
    idx.write(std::as_bytes(std::span(kIdxMagic)));
    idx.write(std::as_bytes(std::span(&kIdxVersion, 1)));
    idx.write(std::as_bytes(std::span(&dtype->code, 1)));
    idx.write(std::as_bytes(std::span(&num_sequences, 1)));
    idx.write(std::as_bytes(std::span(&num_boundaries, 1)));
    idx.write(std::as_bytes(std::span(lengths_)));
    idx.write(std::as_bytes(std::span(offsets_)));
    idx.write(std::as_bytes(std::span(boundaries_)));
  }
  DatasetIndex index() const {
    return {.width = width_,
            .num_sequences = static_cast<std::int64_t>(lengths_.size()),
            .num_documents = static_cast<std::int64_t>(boundaries_.size()) - 1,
            .num_tokens = tokens_.num_tokens()};
  }

 private:
  /// Ends a sequence, whose length has 32 bits in the format.
  void end_sequence() {
    const std::int64_t length = tokens_.num_tokens() - begin_;
    if (length > INT32_MAX)
      throw Error(ErrorKind::data, fmt::format("a document of {} tokens, at most {} fit a sequence",
                                               length, INT32_MAX));
    offsets_.push_back(begin_ * static_cast<std::int64_t>(bytes_of(width_)));
    lengths_.push_back(static_cast<std::int32_t>(length));
    begin_ = tokens_.num_tokens();
  }

  TokenWriter tokens_;
  TokenWidth width_;
  std::int64_t begin_ = 0;  ///< first token of the sequence that is being added
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> boundaries_{0};
};

}  // namespace

DatasetIndex write_indexed_dataset(const std::vector<std::string>& files,
                                   const Tokenizer& tokenizer, const std::string& prefix,
                                   const EncodeOptions& options, const TextRules& rules) {
  const std::string bin = bin_path(prefix), idx = idx_path(prefix), sums = sums_path(prefix);
  for (const std::string& path : {bin, idx})  // sums without them are of a dataset that is gone
    if (file_exists(path))
      throw Error(ErrorKind::data,
                  fmt::format("{} exists and is not replaced; give another prefix", path));
  for (const std::string& file : files)
    file_kind(file, tokenizer.name());  // refuses what holds no text
  const bool narrow = tokenizer.vocab_size() < kFirstWideVocabulary;
  PublishedFile bin_file(bin), idx_file(idx), sums_file(sums);
  DatasetWriter writer(bin_file.file(), narrow ? TokenWidth::u16 : TokenWidth::i32);
  CorpusEncoder encoder(
      tokenizer, options, size_of_files(files),
      [&writer](std::span<const std::int32_t> ids, Ends ends) { writer.add(ids, ends); });
  CorpusReading reading;
  for (const std::string& file : files) add_file(file, LossOn::all, rules, encoder, reading);
  encoder.finish();
  encoder.warn(reading.skipped_sentence());
  if (writer.index().num_tokens == 0)
    throw Error(ErrorKind::data, fmt::format("no token in {}", fmt::join(files, ", ")));
  writer.write_index(idx_file.file());
  sums_file.file().write(fmt::format(
      "{}  {}\n{}  {}\n", to_hex(writer.sum()), std::filesystem::path(bin).filename().string(),
      to_hex(xxh64(MappedFile::open(idx_file.file().path()).bytes())),
      std::filesystem::path(idx).filename().string()));
  bin_file.publish();
  sums_file.publish();
  idx_file.publish();  // last: a .bin without its .idx is no dataset
  return writer.index();
}

}  // namespace troupe::stages
