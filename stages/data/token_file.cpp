#include "stages/data/token_file.h"

#include "stages/data/indexed_dataset.h"
#include "stages/data/token_cache.h"
#include "stages/storage/mapped_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

/// Token ids that begin at byte 0 of a file: a token cache, or the .bin of a dataset.
class MappedTokens final : public TokenFile {
 public:
  MappedTokens(const std::string& path, std::string name, TokenWidth width, std::int64_t num_tokens)
      : name_(std::move(name)),
        file_(MappedFile::open(path)),
        width_(width),
        num_tokens_(num_tokens) {
    // The header was read from the file of this name a moment ago; another one may have replaced it
    // since.
    if (file_.bytes().size() < static_cast<std::uint64_t>(num_tokens) * bytes_of(width))
      throw Error(ErrorKind::data, path + ": changed while it was opened");
  }

  const std::string& name() const override { return name_; }
  std::int64_t num_tokens() const override { return num_tokens_; }

  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    TROUPE_ASSERT(begin >= 0 && begin <= num_tokens_ - static_cast<std::int64_t>(out.size()));
    unpack_ids(file_.bytes().data() + static_cast<std::size_t>(begin) * bytes_of(width_), width_,
               out);
  }

 private:
  std::string name_;
  MappedFile file_;
  TokenWidth width_;
  std::int64_t num_tokens_;
};

}  // namespace

std::unique_ptr<TokenFile> TokenFile::open(const std::string& path) {
  return open(path, is_indexed_dataset(path) ? bin_path(path) : path);
}

std::unique_ptr<TokenFile> TokenFile::open(const std::string& path, const std::string& name) {
  if (is_indexed_dataset(path)) {
    const DatasetIndex index = read_dataset_index(path);
    return std::make_unique<MappedTokens>(bin_path(path), name, index.width, index.num_tokens);
  }
  const TokenCacheTrailer trailer = read_token_cache_trailer(path);
  return std::make_unique<MappedTokens>(path, name, trailer.width, trailer.num_tokens);
}

}  // namespace troupe::stages
