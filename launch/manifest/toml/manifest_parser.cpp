#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>

#include "launch/host/suggest.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/manifest/toml/synonyms.h"
#include "launch/manifest/toml/toml_values.h"

namespace troupe::launch {
namespace {

/// The name of the tables that mesh.stage is written as.
constexpr std::string_view kStageTables = "stage";

std::string place_of(const std::string& file, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column);
}

/// Parses the line "value = ..." and returns the table with this one node. `wrong` makes the
/// message for a text that is not a TOML value.
template <typename Wrong>
toml::table parse_value(const std::string& text, const std::string& place, const Wrong& wrong) try {
  toml::table table = toml::parse("value = " + text + "\n");
  if (table.size() != 1 || !table.contains("value")) refuse(place, "this is not one TOML value");
  return table;
} catch (const toml::parse_error&) {
  refuse(place, wrong());
}

std::string not_of_kind(const Key& key, const std::string& text) {
  return fmt::format("{} must be {}, not '{}'", key.full_name(), name_of(key.kind()), brief(text));
}

/// The parser's message, replaced if it only guesses from the first letter what a word without
/// quotes was meant to be.
std::string described(const toml::parse_error& error) {
  const std::string_view text = error.description();
  for (const std::string_view guess : {"expected 'true'", "expected 'false'", "expected 'inf'",
                                       "expected 'nan'", "could not determine value type"})
    if (text.find(guess) != std::string_view::npos)
      return "this is not a TOML value; a text needs quotes, numbers, true and false need none";
  return std::string(text);
}

/// Whether an override's text has no quotes, which shells remove.
bool is_bare(const Key& key, const std::string& text) {
  if (key.kind() != Kind::text && key.kind() != Kind::texts) return false;
  const bool list = key.kind() == Kind::texts && text.starts_with('[');
  return !text.starts_with('"') && !text.starts_with('\'') && !list;
}

std::string unknown_table(std::string_view table) {
  if (const auto here = find_synonym(kTableSynonyms, table); !here.empty())
    return fmt::format("unknown table [{0}]; {0} is [{1}] here", brief(table), here);
  const auto tables = manifest_tables();
  return fmt::format("unknown table [{}]; did you mean [{}]? Tables are {}", brief(table),
                     nearest(table, tables), quoted_list(tables));
}

/// The nearest known key: first the one it was renamed to, then what another program's key is here,
/// then the same name in another table, then what others call so, then by edit distance.
std::string unknown_key(std::string_view table, std::string_view name) {
  const std::string full = fmt::format("{}.{}", table, name);
  if (const auto now = find_synonym(kRenamedKeys, full); !now.empty())
    return fmt::format("'{}' is called '{}' now", full, now);
  if (const auto instead = find_synonym(kMegatronKeys, full); !instead.empty())
    return fmt::format("'{}' is a name of Megatron-LM; here {}", full, instead);
  std::vector<std::string_view> names;
  for (const Key& key : manifest_keys()) {
    if (key.name == name)
      return fmt::format("unknown key '{0}.{1}'; did you mean '{2}.{1}'?", table, name, key.table);
    if (key.table == table) names.push_back(key.name);
  }
  if (const std::string synonym = key_synonym(table, brief(name)); !synonym.empty())
    return fmt::format("unknown key '{}.{}'; {}", table, brief(name), synonym);
  return fmt::format("unknown key '{0}.{1}'; did you mean '{0}.{2}'? Keys of [{0}] are {3}", table,
                     brief(name), nearest(name, names), quoted_list(names));
}

/// The message for a table or key at the top level of the file that is not a known table.
std::string unknown_top(std::string_view name, const toml::node& node) {
  const std::string known = node.is_table() ? "" : key_without_table(brief(name));
  if (known.empty()) return unknown_table(name);
  return fmt::format("'{}' stands outside of a table; {}", brief(name), known);
}

}  // namespace

/// Fills a Manifest from the defaults, a TOML text and overrides, in this order.
class ManifestParser {
 public:
  explicit ManifestParser(Manifest& manifest) : manifest_(manifest) {}

  void defaults();
  void file(std::string_view text);
  void override_with(const std::string& assignment);
  /// Marks the keys that run.derived names and no override set as derived, so that they are derived
  /// again. Until then their values are those of the file, for parse_resolved(), which takes a
  /// resolved text as it is.
  void mark_derived();

 private:
  void read_table(std::string_view table, const toml::table& nodes);
  void read_stages(const toml::node& node);
  void set(const Key& key, Value value, Manifest::Origin origin, const std::string& place);

  Manifest& manifest_;
};

void ManifestParser::set(const Key& key, Value value, Manifest::Origin origin,
                         const std::string& place) {
  key.set(&manifest_.settings_, std::move(value));
  manifest_.state(key) = {.present = true, .origin = origin, .place = place};
}

void ManifestParser::defaults() {
  for (const Key& key : manifest_keys()) {
    if (key.fallback.empty()) continue;
    const std::string name = key.full_name();
    const toml::table parsed =
        parse_value(std::string(key.fallback), name, [&] { return std::string(key.fallback); });
    const Value value =
        value_of(key, *parsed.get("value"), [&](const toml::node&) { return name; });
    set(key, value, Manifest::Origin::fallback, name);
  }
}

void ManifestParser::file(std::string_view text) {
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    refuse(place_of(manifest_.name_, error.source()), described(error));
  }
  const auto tables = manifest_tables();
  for (const auto& [name, node] : root) {
    const std::string place = place_of(manifest_.name_, name.source());
    if (name.str() == kStageTables) {
      read_stages(node);
      continue;
    }
    if (std::ranges::find(tables, name.str()) == tables.end())
      refuse(place, unknown_top(name.str(), node));
    if (name.str() == "adapter" && node.is_array())
      refuse(place,
             "[[adapter]]: several adapters on one base, each with its own data, cannot be trained "
             "yet; give one, as [adapter]");
    if (!node.is_table())
      refuse(place, fmt::format("[{}] must be a table, not {}", name.str(), name_of(node.type())));
    read_table(name.str(), *node.as_table());
  }
}

/// Tables [[stage]] stand for themselves, as what they hold is more than a setting of [mesh].
void ManifestParser::read_stages(const toml::node& node) {
  const Key& key = manifest_.key_of(manifest_->stages);
  if (manifest_.given(key))
    refuse(place_of(manifest_.name_, node.source()),
           "[[stage]] tables and mesh.stage are both given; take one of them");
  const auto place = [this](const toml::node& at) {
    return place_of(manifest_.name_, at.source());
  };
  set(key, value_of(key, node, place), Manifest::Origin::file, place(node));
}

void ManifestParser::read_table(std::string_view table, const toml::table& nodes) {
  for (const auto& [name, node] : nodes) {
    const Key* key = find_key(table, name.str());
    if (!key) refuse(place_of(manifest_.name_, name.source()), unknown_key(table, name.str()));
    const auto place = [this](const toml::node& at) {
      return place_of(manifest_.name_, at.source());
    };
    set(*key, value_of(*key, node, place), Manifest::Origin::file, place(node));
  }
}

void ManifestParser::mark_derived() {
  std::vector<std::string> names;
  for (const Key& key : manifest_keys())
    if (key.fallback.empty()) names.push_back(key.full_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (const std::string& name : manifest_->derived)
    if (std::ranges::find(names, name) == names.end())
      manifest_.fail(manifest_->derived,
                     "run.derived names '{}'; did you mean '{}'? Derived keys are {}", brief(name),
                     nearest(name, known), quoted_list(known));
  for (const Key& key : manifest_keys()) {
    Manifest::State& state = manifest_.state(key);
    if (state.origin != Manifest::Origin::file ||
        std::ranges::count(manifest_->derived, key.full_name()) == 0)
      continue;
    state.origin = Manifest::Origin::derived;
    state.written = manifest_.value(key);
  }
}

void ManifestParser::override_with(const std::string& assignment) {
  const std::string place = "--set " + assignment;
  const std::size_t equals = assignment.find('=');
  const std::size_t dot = assignment.substr(0, equals).find('.');
  if (equals == std::string::npos || dot == std::string::npos) {
    const std::string known = key_without_table(brief(assignment.substr(0, equals)));
    throw Error(ErrorKind::usage, fmt::format("{}: an override has the form table.key=value{}",
                                              place, known.empty() ? "" : "; " + known));
  }
  const std::string table = assignment.substr(0, dot);
  const std::string name = assignment.substr(dot + 1, equals - dot - 1);
  const std::string text = assignment.substr(equals + 1);
  const auto tables = manifest_tables();
  if (std::ranges::find(tables, table) == tables.end()) refuse(place, unknown_table(table));
  const Key* key = find_key(table, name);
  if (!key) refuse(place, unknown_key(table, name));
  const toml::table parsed = parse_value(is_bare(*key, text) ? to_toml(Value(text)) : text, place,
                                         [&] { return not_of_kind(*key, text); });
  const Value value =
      value_of(*key, *parsed.get("value"), [&](const toml::node&) { return place; });
  set(*key, value, Manifest::Origin::override_, place);
}

Manifest Manifest::parse(std::string_view text, const std::string& name,
                         std::span<const std::string> overrides) {
  Manifest manifest;
  manifest.name_ = name;
  ManifestParser parser(manifest);
  parser.defaults();
  parser.file(text);
  for (const std::string& override_ : overrides) parser.override_with(override_);
  parser.mark_derived();
  return manifest;
}

}  // namespace troupe::launch
