#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/token_width.h"
#include "stages/storage/input_file.h"
#include "stages/storage/mapped_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

// The head of a Megatron .idx.
inline constexpr std::array<char, 9> kIdxMagic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
inline constexpr std::uint64_t kIdxVersion = 1;

/// Bytes of the head: magic, u64 version, u8 dtype code, u64 sequences, u64 document boundaries
/// (documents + 1). After the head: int32 lengths in tokens and int64 offsets into the .bin, one of
/// each per sequence; then the int64 boundaries, from 0 to the number of sequences. Nothing is
/// aligned: reads copy.
inline constexpr std::uint64_t kIdxHeadBytes = 9 + 8 + 1 + 8 + 8;

struct DatasetDType {
  std::uint8_t code;
  TokenWidth width;
};
/// Dtypes of the format that can hold ids.
inline constexpr std::array<DatasetDType, 3> kDatasetDTypes = {
    {{1, TokenWidth::u8}, {8, TokenWidth::u16}, {4, TokenWidth::i32}}};

/// What the .idx of a Megatron dataset says, checked (stages/corpus/README.md gives the bytes).
struct DatasetIndex {
  TokenWidth width = TokenWidth::u16;
  std::int64_t num_sequences = 0;
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
};

/// Whether `path` names a Megatron dataset: it ends in .bin or .idx, or both lie at the prefix
/// `path`.
bool is_indexed_dataset(const std::string& path);
/// The names of the two files, from the name of either or the prefix, and of the file of their
/// checksums, which lies beside a dataset that write_indexed_dataset() made.
std::string bin_path(const std::string& path);
std::string idx_path(const std::string& path);
std::string sums_path(const std::string& path);

/// Compares every byte of the dataset with the checksums beside it; one of another writer has none.
/// Throws Error{data} naming the file that was changed since.
void verify_dataset(const std::string& path);

/// Where the documents of a Megatron dataset begin, read from its mapped .idx.
class DatasetDocuments {
 public:
  /// Checks the .idx against itself and the length of the .bin: the sequences must fill the .bin
  /// without gaps, so that it is one stream of tokens. Throws Error{data} naming the file and the
  /// rule.
  explicit DatasetDocuments(const std::string& path);
  const DatasetIndex& index() const { return index_; }
  /// Throws Error{data} if the .idx has become shorter.
  void refuse_if_cut() const { file_.refuse_if_cut(); }
  /// The first token of a document; the number of tokens for i = index().num_documents.
  std::int64_t begin(std::int64_t i) const;

 private:
  DatasetDocuments(const std::string& path, std::uint64_t bin_bytes);
  void read_head();
  void check_sequences(std::uint64_t bin_bytes);
  void check_documents() const;
  Error refusal(const std::string& why) const;

  template <typename Number>
  Number at(std::uint64_t byte) const;
  std::int64_t length(std::int64_t sequence) const;  ///< in tokens
  std::int64_t offset(std::int64_t sequence) const;  ///< in the .bin
  /// The sequence at which a document begins; the number of sequences for the one after the last.
  std::int64_t boundary(std::int64_t i) const;

  InputFile file_;
  MappedFile mapped_;
  DatasetIndex index_;
};

/// Turns files into a Megatron dataset <prefix>.bin and <prefix>.idx (16-bit ids for a vocabulary
/// below 65500 tokens, else 32-bit), and <prefix>.xxh64 with the XXH64 of both, in the lines that
/// `xxhsum -c` reads. A file of JSON lines is one document per line (add_file); any other
/// file is one document. The options say what is put around each document, the rules how
/// records are read. Memory is bounded by the longest piece of text that the tokenizer takes as a
/// whole, and by the index, which takes 12 bytes per sequence. Throws Error{data} for missing or
/// malformed input (with its line), for a file that is not text, if there are no tokens, and if one
/// of the files exists.
DatasetIndex write_indexed_dataset(const std::vector<std::string>& files,
                                   const Tokenizer& tokenizer, const std::string& prefix,
                                   const EncodeOptions& options = {}, const TextRules& rules = {});

}  // namespace troupe::stages
