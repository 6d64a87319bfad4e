#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <filesystem>

#include "stages/corpus/tokenizers/added_tokens.h"
#include "stages/corpus/tokenizers/frame_beside.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/corpus/tokenizers/token_names.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"
#include "stages/corpus/tokenizers/tokenizer_files.h"
#include "stages/corpus/tokenizers/tokens_beside.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

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
    Vocabulary pieces;
    for (int id = 0; id < processor_.GetPieceSize(); ++id)
      pieces.emplace(processor_.IdToPiece(id), id);
    names_ = TokenNames(pieces, std::nullopt);
    const TokenizerConfig config(std::filesystem::path(path).parent_path());
    if (!files_beside(path).empty()) read_tokens(config);
    frame_ = frame_beside(
        config, [this](std::string_view token) { return id_of(token); }, path);
  }

  int vocab_size() const override { return names_.vocab_size(); }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return names_.id_of(token);
  }
  std::string name_of(std::int32_t id) const override { return names_.name_of(id); }

  std::vector<std::int32_t> encode(std::string_view text, Place place) const override {
    if (!is_valid_utf8(text)) return encode(valid_utf8(text), place);
    std::vector<std::int32_t> ids;
    bool behind_token = false;
    for (const auto& [section, token] : added_.split(text)) {
      if (token) {
        ids.push_back(*token);
      } else {
        const bool continues = behind_token ? !prefix_behind_tokens_ : place != Place::start;
        const std::vector<std::int32_t> part = continues ? continued(section) : ids_of(section);
        ids.insert(ids.end(), part.begin(), part.end());
      }
      behind_token = true;
    }
    return ids;
  }

  Cuts cuts() const override { return added_.allows_cuts() ? Cuts::at_lines : Cuts::nowhere; }
  Frame frame() const override { return frame_; }

  std::string decode(std::span<const std::int32_t> ids) const override {
    check_decodable(ids, vocab_size());
    std::string text;
    std::vector<int> section;
    const auto end_section = [&](bool begins) {
      text += begins || prefix_behind_tokens_ ? text_of(section) : continued_text_of(section);
      section.clear();
    };
    bool begins = true;
    for (const std::int32_t id : ids) {
      if (id < processor_.GetPieceSize()) {
        section.push_back(id);
        continue;
      }
      end_section(begins);
      begins = false;
      if (!names_.is_special(id)) text += names_.name_of(id);
    }
    end_section(begins);
    return text;
  }

 private:
  /// The special tokens of the model, and those that files beside it name. Classes of transformers
  /// differ in whether a text behind such a token has a dummy prefix of its own.
  void read_tokens(const TokenizerConfig& config) {
    for (const int id : {processor_.bos_id(), processor_.eos_id(), processor_.unk_id()})
      if (id >= 0)
        names_.add({{.token = {.content = processor_.IdToPiece(id), .special = true},
                     .id = id,
                     .place = config.path().string()}});
    names_.add(tokens_beside(config, names_.added()));
    std::vector<AddedToken> found = found_in_text(names_.added(), config);
    for (AddedToken& token : found) token.normalized = false;  // the model normalizes by itself
    added_ = AddedTokens(found, Normalizer(std::nullopt));
    const nlohmann::json name = config.member("tokenizer_class");
    if (name == "LlamaTokenizer" || name == "LlamaTokenizerFast")
      prefix_behind_tokens_ = config.is_set("legacy");
  }

  std::vector<std::int32_t> ids_of(std::string_view text) const {
    std::vector<int> ids;
    const auto status = processor_.Encode({text.data(), text.size()}, &ids);
    if (!status.ok())
      throw Error(ErrorKind::data, fmt::format("SentencePiece cannot encode a text of {} bytes: {}",
                                               text.size(), status.ToString()));
    return ids;
  }

  /// A text behind a newline or a token is encoded together with a newline, so that it gets no
  /// dummy prefix, and the ids that a newline alone has are taken away. They are there unless the
  /// vocabulary has a piece that spans the newline.
  std::vector<std::int32_t> continued(std::string_view text) const {
    if (text.empty()) return {};
    std::vector<std::int32_t> ids = ids_of("\n" + std::string(text));
    if (ids.size() < newline_.size() || !std::equal(newline_.begin(), newline_.end(), ids.begin()))
      return ids_of(text);
    ids.erase(ids.begin(), ids.begin() + std::ssize(newline_));
    return ids;
  }

  std::string text_of(const std::vector<int>& ids) const {
    std::string text;
    const auto status = processor_.Decode(ids, &text);
    if (!status.ok())
      throw Error(ErrorKind::data, fmt::format("SentencePiece cannot decode {} ids: {}", ids.size(),
                                               status.ToString()));
    return text;
  }

  /// The text of ids that have no dummy prefix.
  std::string continued_text_of(const std::vector<int>& ids) const {
    std::vector<int> all(newline_.begin(), newline_.end());
    all.insert(all.end(), ids.begin(), ids.end());
    return text_of(all).substr(text_of({newline_.begin(), newline_.end()}).size());
  }

  sentencepiece::SentencePieceProcessor processor_;
  TokenNames names_{Vocabulary(), std::nullopt};
  AddedTokens added_{{}, Normalizer(std::nullopt)};  ///< those that are found in a text
  bool prefix_behind_tokens_ = true;
  std::vector<std::int32_t> newline_;  ///< ids of a newline alone
  Frame frame_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(path);
}

}  // namespace troupe::stages
