#include "stages/data/tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "stages/storage/input_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

/// Limit of a model file, far above any in use. It keeps a large file at a wrong path from being
/// read into memory.
constexpr std::uint64_t kMaxModelBytes = 1'000'000'000;

void check_ids(std::span<const std::int32_t> ids, int vocab_size) {
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocab_size)
      throw Error(ErrorKind::data, fmt::format("token id {} is outside the vocabulary of {} tokens",
                                               id, vocab_size));
}

class ByteTokenizer final : public Tokenizer {
 public:
  int vocab_size() const override { return 256; }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return {bytes, bytes + text.size()};
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    check_ids(ids, vocab_size());
    return {ids.begin(), ids.end()};
  }
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& path) {
    const std::string model = read_whole_file(path, kMaxModelBytes);
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok())
      throw Error(
          ErrorKind::data,
          fmt::format("tokenizer {}: not a SentencePiece model ({}); give \"{}\" or a .model "
                      "file made by spm_train",
                      path, status.message(), kBytesTokenizer));
  }

  int vocab_size() const override { return processor_.GetPieceSize(); }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<int> ids;
    const auto status = processor_.Encode({text.data(), text.size()}, &ids);
    if (!status.ok())
      throw Error(ErrorKind::data, fmt::format("SentencePiece cannot encode a text of {} bytes: {}",
                                               text.size(), status.ToString()));
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    check_ids(ids, vocab_size());
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok())
      throw Error(ErrorKind::data, fmt::format("SentencePiece cannot decode {} ids: {}", ids.size(),
                                               status.ToString()));
    return text;
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::open(const std::string& name) {
  if (name == kBytesTokenizer) return std::make_unique<ByteTokenizer>();
  return std::make_unique<SentencePieceTokenizer>(name);
}

}  // namespace troupe::stages
