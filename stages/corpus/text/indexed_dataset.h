#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/token_width.h"
#include "stages/storage/input_file.h"
#include "stages/storage/mapped_file.h"

namespace troupe::stages {

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

/// Reads the .idx and checks it against itself and the length of the .bin: the sequences must fill
/// the .bin without gaps, so that it is one stream of tokens. Throws Error{data} naming the file
/// and the rule.
DatasetIndex read_dataset_index(const std::string& path);

/// Compares every byte of the dataset with the checksums beside it; one of another writer has none.
/// Throws Error{data} naming the file that was changed since.
void verify_dataset(const std::string& path);

/// Where the documents of a Megatron dataset begin, read from its mapped .idx.
class DatasetDocuments {
 public:
  /// Reads and checks the index as read_dataset_index() does.
  explicit DatasetDocuments(const std::string& path);
  const DatasetIndex& index() const { return index_; }
  /// Throws Error{data} if the .idx has become shorter.
  void refuse_if_cut() const { file_.refuse_if_cut(); }
  /// The first token of a document; the number of tokens for i = index().num_documents.
  std::int64_t begin(std::int64_t i) const;

 private:
  std::int64_t number_at(std::int64_t byte) const;

  DatasetIndex index_;
  InputFile file_;
  MappedFile mapped_;
};

/// Turns files into a Megatron dataset <prefix>.bin and <prefix>.idx (16-bit ids for a vocabulary
/// below 65500 tokens, else 32-bit), and <prefix>.xxh64 with the XXH64 of both, in the lines that
/// `xxhsum -c` reads. A file of JSON lines is one document per line (add_file); any other
/// file is one document. The options say what is put around each document. Memory is bounded
/// by the longest piece of text that the tokenizer takes as a whole, and by the index, which takes
/// 12 bytes per sequence. Throws Error{data} for missing or malformed input (with its line), for a
/// file that is not text, if there are no tokens, and if one of the files exists.
DatasetIndex write_indexed_dataset(const std::vector<std::string>& files,
                                   const Tokenizer& tokenizer, const std::string& prefix,
                                   const EncodeOptions& options = {});

}  // namespace troupe::stages
