#include "stages/corpus/text/marks.h"

#include <fmt/format.h>

#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using Ids = std::vector<std::int32_t>;

/// @param rule its name in a manifest
Ids ids_of(const Tokenizer& tokenizer, const char* rule, const std::string& mark, const Ids& own) {
  if (mark == kAutoMark) return own;
  if (mark == kNoMark) return {};
  if (const auto id = tokenizer.id_of(mark)) return {*id};
  throw Error(ErrorKind::data, fmt::format("{} = \"{}\": {} has no such token; \"{}\" is for none, "
                                           "and \"{}\" for what the tokenizer's own files say",
                                           rule, mark, tokenizer.name(), kNoMark, kAutoMark));
}

}  // namespace

Marks marks_of(const Tokenizer& tokenizer, const TextRules& rules, Documents documents) {
  const Tokenizer::Frame own = tokenizer.frame();
  Marks marks;
  marks.prompts = {.before = ids_of(tokenizer, "bos", rules.bos, own.before),
                   .after = ids_of(tokenizer, "end_of_document", rules.end_of_document, own.after)};
  marks.texts = marks.prompts;
  if (documents == Documents::joined) {
    if (rules.bos == kAutoMark) marks.texts.before.clear();
    if (rules.end_of_document == kAutoMark) marks.texts.after.clear();
  }
  return marks;
}

}  // namespace troupe::stages
