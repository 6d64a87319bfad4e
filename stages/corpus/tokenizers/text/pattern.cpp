#include "stages/corpus/tokenizers/text/pattern.h"

#include "tensor/error.h"

namespace troupe::stages {

Pattern Pattern::read(const JsonPart& part) {
  if (const auto text = part.find("String")) {
    const std::string source = text->text();
    if (source.empty()) text->fail("must not be empty");
    return {.source = source, .literal = true, .regex = Regex::literal(source)};
  }
  const JsonPart regex = part.at("Regex");
  const std::string source = regex.text();
  try {
    return {.source = source, .regex = Regex(source)};
  } catch (const Error& error) {
    regex.fail(error.what());
  }
}

}  // namespace troupe::stages
