#include "stages/tokenizers/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "stages/storage/input_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& path) {
    const std::string model = read_whole_file(path, kMaxTokenizerBytes);
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok())
      throw Error(
          ErrorKind::data,
          fmt::format("tokenizer {}: not a SentencePiece model ({}); give \"{}\" or a .model "
                      "file made by spm_train",
                      path, status.message(), kBytesTokenizer));
  }

  int vocab_size() const override { return processor_.GetPieceSize(); }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const int id = processor_.PieceToId({token.data(), token.size()});
    if (processor_.IdToPiece(id) != token) return std::nullopt;  // the id of the unknown piece
    return id;
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<int> ids;
    const auto status = processor_.Encode({text.data(), text.size()}, &ids);
    if (!status.ok())
      throw Error(ErrorKind::data, fmt::format("SentencePiece cannot encode a text of {} bytes: {}",
                                               text.size(), status.ToString()));
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    check_decodable(ids, vocab_size());
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

std::unique_ptr<Tokenizer> open_sentencepiece(const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(path);
}

}  // namespace troupe::stages
