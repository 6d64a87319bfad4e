#include "launch/manifest/resolve/rotary.h"

#include <fmt/format.h>

namespace troupe::launch {
namespace {

using tensor::RotaryType;

constexpr const char* kType = "model.rope_type";
constexpr const char* kFactor = "model.rope_factor";
constexpr const char* kOriginal = "model.rope_original_max_position_embeddings";
constexpr const char* kTruncate = "model.rope_truncate";
constexpr std::string_view kPrefix = "model.rope_";

std::string key_of(const tensor::RotaryNumber& number) {
  return std::string(kPrefix) + std::string(number.name);
}

RotaryType type_of(const Manifest& m) {
  RotaryType type = RotaryType::standard;
  TROUPE_ASSERT(tensor::find_rotary_type(m.text(kType), type));  // it is one of the key's choices
  return type;
}

/// Refuses a key that the type does not read.
void check_read(const Manifest& m, const std::string& key) {
  if (!m.given(key) || tensor::reads(type_of(m), key.substr(kPrefix.size()))) return;
  m.fail(key, fmt::format("{} is not read with model.rope_type = '{}'; nearest: leave it out", key,
                          m.text(kType)));
}

}  // namespace

void resolve_rotary(Manifest& m) {
  const tensor::Rotary fallback;
  m.derive(kType, std::string(name_of(fallback.type)));
  m.derive("model.rope_theta", fallback.theta);
  for (const tensor::RotaryNumber& number : tensor::kRotaryNumbers)
    m.derive(key_of(number), fallback.*number.member);
  m.derive(kOriginal, m.integer("model.max_position_embeddings"));
  m.derive(kTruncate, fallback.truncate);
}

void check_rotary(const Manifest& m) {
  for (const tensor::RotaryNumber& number : tensor::kRotaryNumbers) check_read(m, key_of(number));
  check_read(m, kOriginal);
  check_read(m, kTruncate);
  if (tensor::reads(type_of(m), "factor") && !m.given(kFactor))
    m.fail(kType, fmt::format("model.rope_type = '{}' needs model.rope_factor; usual: 2 to 8",
                              m.text(kType)));
}

tensor::Rotary rotary_of(const Manifest& m) {
  tensor::Rotary rotary{.type = type_of(m),
                        .theta = m.number("model.rope_theta"),
                        .original_max_position_embeddings = m.integer(kOriginal),
                        .truncate = m.flag(kTruncate)};
  for (const tensor::RotaryNumber& number : tensor::kRotaryNumbers)
    rotary.*number.member = m.number(key_of(number));
  return rotary;
}

}  // namespace troupe::launch
