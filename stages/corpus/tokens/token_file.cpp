#include "stages/corpus/tokens/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <ranges>
#include <utility>

#include "stages/corpus/text/indexed_dataset.h"
#include "stages/corpus/tokens/token_cache.h"
#include "stages/storage/input_file.h"
#include "stages/storage/mapped_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// What tells a person that a file in use has changed. A run's workers name its files by links.
template <typename Read>
void read_in_use(const std::string& name, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    throw Error(ErrorKind::data, fmt::format("{}: cannot be read any more, was it replaced or cut "
                                             "while it was in use? {}",
                                             name, error.what()));
  }
}

/// Token ids that begin at byte 0 of a file. They are read, not mapped: if the file is cut, an
/// access to a page that it has lost would end the process, and with it what a run has trained.
class StoredTokens : public TokenFile {
 public:
  StoredTokens(const std::string& path, std::string name, TokenWidth width, std::int64_t num_tokens)
      : name_(std::move(name)),
        file_(InputFile::open(path)),
        width_(width),
        num_tokens_(num_tokens) {
    // The header was read from the file of this name a moment ago; another one may have replaced it
    // since.
    if (file_.size() < ids_bytes())
      throw Error(ErrorKind::data, path + ": changed while it was opened");
  }

  const std::string& name() const override { return name_; }
  std::int64_t num_tokens() const override { return num_tokens_; }

  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    TROUPE_ASSERT(begin >= 0 && begin <= num_tokens_ - static_cast<std::int64_t>(out.size()));
    std::array<std::byte, 16384> packed;  // on the stack, since a step allocates nothing
    const std::size_t most = packed.size() / bytes_of(width_);
    auto at = static_cast<std::uint64_t>(begin) * bytes_of(width_);
    while (!out.empty()) {
      const auto ids = out.first(std::min(most, out.size()));
      const auto bytes = std::span(packed).first(ids.size() * bytes_of(width_));
      read_in_use(name_, [&] { file_.read(at, bytes); });
      unpack_ids(packed.data(), width_, ids);
      at += bytes.size();
      out = out.subspan(ids.size());
    }
  }

 protected:
  std::size_t ids_bytes() const { return static_cast<std::size_t>(num_tokens_) * bytes_of(width_); }
  const InputFile& file() const { return file_; }

 private:
  std::string name_;
  InputFile file_;
  TokenWidth width_;
  std::int64_t num_tokens_;
};

/// A token cache: the ends of its documents follow the ids, then the masked spans.
class CachedTokens final : public StoredTokens {
 public:
  CachedTokens(const std::string& path, std::string name, const TokenCacheTrailer& trailer)
      : StoredTokens(path, std::move(name), trailer.width,
                     static_cast<std::int64_t>(trailer.num_tokens)),
        mapped_(MappedFile::map(file())),
        num_documents_(static_cast<std::int64_t>(trailer.num_documents)),
        num_masked_(static_cast<std::int64_t>(trailer.num_masked)) {
    if (mapped_.bytes().size() - ids_bytes() < trailer.bounds_bytes())
      throw Error(ErrorKind::data, path + ": changed while it was opened");
    const auto refuse = [&path](const char* why) {
      throw Error(ErrorKind::data, path + ": not a token file: " + why);
    };
    for (std::int64_t i = 0; i < num_documents_; ++i)
      if (document_begin(i + 1) < document_begin(i)) refuse(kWrongEnds);
    if (document_begin(num_documents_) != num_tokens()) refuse(kWrongEnds);
    std::int64_t done = 0;
    for (std::int64_t i = 0; i < num_masked_; ++i) {
      const auto [begin, end] = masked(i);
      if (begin < done || end <= begin || end > num_tokens())
        refuse("the spans that are no targets do not ascend to its end");
      done = end;
    }
  }

  void refuse_if_cut() const override {
    read_in_use(name(), [this] { file().refuse_if_cut(); });
  }
  std::int64_t num_documents() const override { return num_documents_; }
  std::int64_t document_begin(std::int64_t i) const override {
    return i == 0 ? 0 : number_at(i - 1);
  }
  std::int64_t num_masked() const override { return num_masked_; }
  TokenSpan masked(std::int64_t i) const override {
    return {.begin = number_at(num_documents_ + 2 * i),
            .end = number_at(num_documents_ + 2 * i + 1)};
  }

 private:
  static constexpr const char* kWrongEnds = "the ends of its documents do not ascend to its end";

  /// The i-th number behind the ids.
  std::int64_t number_at(std::int64_t i) const {
    std::int64_t number = 0;
    const std::size_t at = ids_bytes() + static_cast<std::size_t>(i) * sizeof number;
    std::memcpy(&number, mapped_.bytes().data() + at, sizeof number);
    return number;
  }

  MappedFile mapped_;  // for the numbers: documents and spans are looked up too often for reads
  std::int64_t num_documents_;
  std::int64_t num_masked_;
};

/// The .bin of a dataset, whose documents its .idx has.
class DatasetTokens final : public StoredTokens {
 public:
  DatasetTokens(const std::string& path, std::string name, DatasetDocuments documents)
      : StoredTokens(bin_path(path), std::move(name), documents.index().width,
                     documents.index().num_tokens),
        documents_(std::move(documents)) {}

  void refuse_if_cut() const override {
    read_in_use(name(), [this] { documents_.refuse_if_cut(); });
  }
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

std::int64_t first_masked_after(const TokenFile& tokens, std::int64_t token) {
  const auto spans = std::views::iota(std::int64_t{0}, tokens.num_masked());
  const auto ends_behind = [&](std::int64_t i) { return tokens.masked(i).end > token; };
  return *std::ranges::partition_point(spans, std::not_fn(ends_behind));
}

std::int64_t count_masked(const TokenFile& tokens, const TokenSpan& span) {
  std::int64_t count = 0;
  for_each_masked(tokens, span, [&](const TokenSpan& part) { count += part.end - part.begin; });
  return count;
}

}  // namespace troupe::stages
