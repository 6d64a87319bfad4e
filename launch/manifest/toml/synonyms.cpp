#include "launch/manifest/toml/synonyms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ranges>

namespace troupe::launch {
namespace {

/// Lower case, without what separates words.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '-' && c != '_') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Whether a name is one of those that spaces separate.
bool is_one_of(std::string_view names, std::string_view name) {
  return std::ranges::any_of(names | std::views::split(' '), [&](const auto& word) {
    return plain(std::string_view(word.begin(), word.end())) == plain(name);
  });
}

}  // namespace

std::string_view find_synonym(std::span<const Synonyms> table, std::string_view name) {
  for (const auto& [names, here] : table)
    if (is_one_of(names, name)) return here;
  return {};
}

const Key* find_key_called(std::span<const Key> keys, std::string_view name) {
  const auto found =
      std::ranges::find_if(keys, [&](const Key& key) { return is_one_of(key.called, name); });
  return found == keys.end() ? nullptr : &*found;
}

std::string key_synonym(std::string_view table, std::string_view name) {
  const std::string full = fmt::format("{}.{}", table, name);
  for (const std::string_view called : {std::string_view(full), name})
    if (const Key* key = find_key_called(manifest_keys(), called))
      return fmt::format("{} is {} here", name, key->full_name());
  const auto instead = find_synonym(kWithoutKey, full);
  return std::string(instead.empty() ? find_synonym(kWithoutKey, name) : instead);
}

std::string key_without_table(std::string_view name) {
  // Without a table "steps" are those of the run rather than eval.steps.
  if (std::string synonym = key_synonym("", name); !synonym.empty()) return synonym;
  const auto keys = manifest_keys();
  const auto key = std::ranges::find(keys, name, &Key::name);
  return key != keys.end() ? fmt::format("did you mean {}?", key->full_name()) : "";
}

std::string value_synonym(std::string_view table, std::string_view key, std::string_view value) {
  const std::string full = fmt::format("{}.{}", table, key);
  for (const auto& [of, names, here] : kValueSynonyms)
    if (of == full && is_one_of(names, value))
      // The value itself may be written otherwise.
      return here == value ? "" : fmt::format("{} is {} = '{}' here", value, key, here);
  return "";
}

}  // namespace troupe::launch
