#include "stages/corpus/tokenizers/post_processor.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "stages/corpus/tokenizers/models/vocabulary.h"

namespace troupe::stages {
namespace {

std::int32_t id_of(const JsonPart& id) {
  if (id.integer() < 0 || id.integer() >= kMostTokens)
    id.fail(fmt::format("must be an id below {}", kMostTokens));
  return static_cast<std::int32_t>(id.integer());
}

std::vector<std::int32_t> ids_of(const JsonPart& token) {
  std::vector<std::int32_t> ids;
  for (const JsonPart& id : token.at("ids").items()) ids.push_back(id_of(id));
  return ids;
}

/// The id of a token that is given as [NAME, ID].
std::int32_t id_of_pair(const JsonPart& pair) {
  const std::vector<JsonPart> items = pair.items();
  if (items.size() != 2) pair.fail("must be a token and its id");
  return id_of(items[1]);
}

class FrameReader {
 public:
  void read(const JsonPart& part) {
    const std::string type = part.type();
    if (type == "Sequence") {
      for (const JsonPart& processor : part.at("processors").items()) read(processor);
    } else if (type == "TemplateProcessing") {
      be_only(part, type);
      read_template(part.at("single"), part.at("special_tokens"));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      be_only(part, type);
      frame = {.before = {id_of_pair(part.at("cls"))}, .after = {id_of_pair(part.at("sep"))}};
    } else if (type != "ByteLevel") {
      part.fail(
          fmt::format("post-processor {} is none of TemplateProcessing, BertProcessing, "
                      "RobertaProcessing, ByteLevel, Sequence",
                      type));
    }
  }

  Tokenizer::Frame frame;

 private:
  /// What a second one would do to the tokens of the first is not known here.
  void be_only(const JsonPart& part, const std::string& type) {
    if (adds_tokens_) part.fail(fmt::format("a second {} is not supported", type));
    adds_tokens_ = true;
  }

  void read_template(const JsonPart& pieces, const JsonPart& special_tokens) {
    bool text_seen = false;
    for (const JsonPart& piece : pieces.items()) {
      if (const auto token = piece.find("SpecialToken")) {
        const std::string name = token->at("id").text();
        const std::vector<std::int32_t> ids = ids_of(special_tokens.at(name.c_str()));
        auto& side = text_seen ? frame.after : frame.before;
        side.insert(side.end(), ids.begin(), ids.end());
      } else if (piece.at("Sequence").at("id").text() == "A" && !text_seen) {
        text_seen = true;
      } else {
        piece.fail("the text must come once, as \"A\"");
      }
    }
    if (!text_seen) pieces.fail("the text \"A\" is missing");
  }

  bool adds_tokens_ = false;
};

}  // namespace

Tokenizer::Frame read_frame(const std::optional<JsonPart>& part) {
  FrameReader reader;
  if (part) reader.read(*part);
  return reader.frame;
}

}  // namespace troupe::stages
