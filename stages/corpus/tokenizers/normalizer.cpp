#include "stages/corpus/tokenizers/normalizer.h"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::stages {

Normalizer::Normalizer(const std::optional<JsonPart>& part) {
  if (part) read(*part);
}

void Normalizer::read(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& step : part.at("normalizers").items()) read(step);
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{part.at("prepend").text()});
  } else if (type == "Replace") {
    Replace replace{.pattern = Pattern::read(part.at("pattern")),
                    .with = part.at("content").text()};
    if (!replace.pattern.literal && replace.with.find('$') != std::string::npos)
      part.fail("\"content\" with a $ means different texts in different versions of tokenizers");
    steps_.emplace_back(std::move(replace));
  } else {
    part.fail(fmt::format("normalizer {} is none of Prepend, Replace, Sequence", type));
  }
}

bool Normalizer::prepends() const {
  return std::ranges::any_of(
      steps_, [](const auto& step) { return std::holds_alternative<Prepend>(step); });
}

// A cut lies between a newline and a character that is no white space: neither is a space.
bool Normalizer::allows_cuts() const {
  return std::ranges::all_of(steps_, [](const auto& step) {
    const auto* replace = std::get_if<Replace>(&step);
    return replace == nullptr || (replace->pattern.literal && replace->pattern.source == " ");
  });
}

std::string Normalizer::apply(std::string_view text, Place place) const {
  std::string result(text);
  for (const auto& step : steps_) {
    if (const auto* replace = std::get_if<Replace>(&step))
      result = replace_all(result, replace->pattern.regex, replace->with);
    else if (place == Place::start && !result.empty())
      result.insert(0, std::get<Prepend>(step).text);
  }
  return result;
}

std::string replace_all(std::string_view text, const Regex& pattern, std::string_view with) {
  std::string result;
  std::size_t done = 0;
  for (const ByteRange match : pattern.matches(text)) {
    result += text.substr(done, match.begin - done);
    result += with;
    done = match.end;
  }
  return result += text.substr(done);
}

}  // namespace troupe::stages
