#include "stages/tokenizers/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <filesystem>

#include "stages/storage/input_file.h"
#include "stages/tokenizers/tokenizer_config.h"
#include "stages/tokenizers/utf8.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& path) {
    const std::string model = read_whole_file(path, kMaxTokenizerBytes);
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok())
      throw Error(ErrorKind::data,
                  fmt::format("tokenizer {}: not a SentencePiece model ({}); give \"{}\", a .model "
                              "file made by spm_train, or a tokenizer.json",
                              path, status.message(), kBytesTokenizer));
    newline_ = ids_of("\n");
    read_frame(path);
  }

  int vocab_size() const override { return processor_.GetPieceSize(); }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const int id = processor_.PieceToId({token.data(), token.size()});
    if (processor_.IdToPiece(id) != token) return std::nullopt;  // the id of the unknown piece
    return id;
  }

  /// A text behind a newline is encoded together with the newline, so that it gets no dummy prefix,
  /// and the ids that a newline alone has are taken away. They are there unless the vocabulary has
  /// a piece that spans the newline.
  std::vector<std::int32_t> encode(std::string_view text, Place place) const override {
    if (place == Place::start) return ids_of(text);
    if (text.empty()) return {};
    std::vector<std::int32_t> ids = ids_of("\n" + std::string(text));
    if (ids.size() < newline_.size() || !std::equal(newline_.begin(), newline_.end(), ids.begin()))
      return ids_of(text);
    ids.erase(ids.begin(), ids.begin() + std::ssize(newline_));
    return ids;
  }

  Cuts cuts() const override { return Cuts::at_lines; }
  Frame frame() const override { return frame_; }

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
  /// A .model says nothing about special tokens around a text; the file beside it may.
  void read_frame(const std::string& path) {
    const TokenizerConfig config(std::filesystem::path(path).parent_path());
    const auto add = [&](const char* flag, const char* token, const char* otherwise,
                         std::vector<std::int32_t>& side) {
      if (!config.is_set(flag)) return;
      const auto given = config.has_token(token) ? config.token(token) : otherwise;
      if (!given) return;
      const auto id = id_of(*given);
      if (!id)
        throw Error(ErrorKind::data, fmt::format("{}: {} \"{}\" is no token of {}",
                                                 config.path().string(), token, *given, path));
      side.push_back(*id);
    };
    add("add_bos_token", "bos_token", "<s>", frame_.before);
    add("add_eos_token", "eos_token", "</s>", frame_.after);
  }

  std::vector<std::int32_t> ids_of(std::string_view bytes) const {
    const std::string text = valid_utf8(bytes);
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    if (!status.ok())
      throw Error(ErrorKind::data, fmt::format("SentencePiece cannot encode a text of {} bytes: {}",
                                               text.size(), status.ToString()));
    return ids;
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<std::int32_t> newline_;  ///< ids of a newline alone
  Frame frame_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(path);
}

}  // namespace troupe::stages
