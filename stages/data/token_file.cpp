#include "stages/data/token_file.h"

#include <cstring>

#include "stages/data/indexed_dataset.h"
#include "stages/data/token_cache.h"
#include "stages/storage/mapped_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

/// Token ids that begin at byte 0 of a file.
class MappedTokens : public TokenFile {
 public:
  MappedTokens(const std::string& path, std::string name, TokenWidth width, std::int64_t num_tokens)
      : name_(std::move(name)),
        file_(MappedFile::open(path)),
        width_(width),
        num_tokens_(num_tokens) {
    // The header was read from the file of this name a moment ago; another one may have replaced it
    // since.
    if (file_.bytes().size() < ids_bytes())
      throw Error(ErrorKind::data, path + ": changed while it was opened");
  }

  const std::string& name() const override { return name_; }
  std::int64_t num_tokens() const override { return num_tokens_; }

  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    TROUPE_ASSERT(begin >= 0 && begin <= num_tokens_ - static_cast<std::int64_t>(out.size()));
    unpack_ids(file_.bytes().data() + static_cast<std::size_t>(begin) * bytes_of(width_), width_,
               out);
  }

 protected:
  std::size_t ids_bytes() const { return static_cast<std::size_t>(num_tokens_) * bytes_of(width_); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  std::string name_;
  MappedFile file_;
  TokenWidth width_;
  std::int64_t num_tokens_;
};

/// A token cache: the ends of its documents follow the ids.
class CachedTokens final : public MappedTokens {
 public:
  CachedTokens(const std::string& path, std::string name, const TokenCacheTrailer& trailer)
      : MappedTokens(path, std::move(name), trailer.width, trailer.num_tokens),
        num_documents_(trailer.num_documents) {
    const auto ends = static_cast<std::size_t>(num_documents_) * sizeof(std::int64_t);
    if (bytes().size() - ids_bytes() < ends)
      throw Error(ErrorKind::data, path + ": changed while it was opened");
    for (std::int64_t i = 0; i < num_documents_; ++i)
      if (document_begin(i + 1) < document_begin(i)) throw wrong_documents(path);
    if (document_begin(num_documents_) != num_tokens()) throw wrong_documents(path);
  }

  std::int64_t num_documents() const override { return num_documents_; }
  std::int64_t document_begin(std::int64_t i) const override {
    std::int64_t end = 0;
    if (i == 0) return end;
    const std::size_t at = ids_bytes() + static_cast<std::size_t>(i - 1) * sizeof end;
    std::memcpy(&end, bytes().data() + at, sizeof end);
    return end;
  }

 private:
  static Error wrong_documents(const std::string& path) {
    return Error(ErrorKind::data,
                 path + ": not a token file: the ends of its documents do not ascend to its end");
  }

  std::int64_t num_documents_;
};

/// The .bin of a dataset, whose documents its .idx has.
class DatasetTokens final : public MappedTokens {
 public:
  DatasetTokens(const std::string& path, std::string name, DatasetDocuments documents)
      : MappedTokens(bin_path(path), std::move(name), documents.index().width,
                     documents.index().num_tokens),
        documents_(std::move(documents)) {}

  std::int64_t num_documents() const override { return documents_.index().num_documents; }
  std::int64_t document_begin(std::int64_t i) const override { return documents_.begin(i); }

 private:
  DatasetDocuments documents_;
};

}  // namespace

std::unique_ptr<TokenFile> TokenFile::open(const std::string& path) {
  return open(path, is_indexed_dataset(path) ? bin_path(path) : path);
}

std::unique_ptr<TokenFile> TokenFile::open(const std::string& path, const std::string& name) {
  if (is_indexed_dataset(path))
    return std::make_unique<DatasetTokens>(path, name, DatasetDocuments(path));
  return std::make_unique<CachedTokens>(path, name, read_token_cache_trailer(path));
}

}  // namespace troupe::stages
