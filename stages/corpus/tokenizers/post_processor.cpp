#include "stages/corpus/tokenizers/post_processor.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "stages/corpus/tokenizers/bpe/bpe_model.h"

namespace troupe::stages {
namespace {

std::vector<std::int32_t> ids_of(const JsonPart& token) {
  std::vector<std::int32_t> ids;
  for (const JsonPart& id : token.at("ids").items()) {
    if (id.integer() < 0 || id.integer() >= kMostTokens)
      id.fail(fmt::format("must be an id below {}", kMostTokens));
    ids.push_back(static_cast<std::int32_t>(id.integer()));
  }
  return ids;
}

class FrameReader {
 public:
  void read(const JsonPart& part) {
    const std::string type = part.type();
    if (type == "Sequence") {
      for (const JsonPart& processor : part.at("processors").items()) read(processor);
    } else if (type == "TemplateProcessing") {
      if (has_template_) part.fail("a second TemplateProcessing is not supported");
      has_template_ = true;
      read_template(part.at("single"), part.at("special_tokens"));
    } else if (type != "ByteLevel") {
      part.fail(fmt::format("post-processor {} is none of TemplateProcessing, ByteLevel, Sequence",
                            type));
    }
  }

  Tokenizer::Frame frame;

 private:
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

  bool has_template_ = false;
};

}  // namespace

Tokenizer::Frame read_frame(const std::optional<JsonPart>& part) {
  FrameReader reader;
  if (part) reader.read(*part);
  return reader.frame;
}

}  // namespace troupe::stages
