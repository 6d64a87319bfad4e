#include "launch/manifest/manifest_parser.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "launch/host/suggest.h"

namespace troupe::launch {
namespace {

[[noreturn]] void refuse(const std::string& place, const std::string& message) {
  throw Error(ErrorKind::manifest, fmt::format("{}: {}", place, message));
}

std::string place_of(const std::string& file, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column);
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return "an integer";
    case Kind::number:
      return "a number";
    case Kind::text:
      return "a text in quotes";
    case Kind::texts:
      return "a text or a list of texts, in quotes";
    case Kind::pair:
      return "a list of two numbers";
  }
  return "";
}

std::string_view name_of(toml::node_type type) {
  switch (type) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "another list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

/// The elements of a list as T; none if one of them is not a T.
template <typename T>
std::optional<Value> list_of(const toml::node& node) {
  std::vector<T> items;
  for (const toml::node& item : *node.as_array()) {
    const std::optional<T> value = item.value<T>();
    if (!value || item.is_boolean()) return std::nullopt;
    items.push_back(*value);
  }
  return items;
}

/// The node as a value of `kind`; none if it has another type.
std::optional<Value> convert(const toml::node& node, Kind kind) {
  switch (kind) {
    case Kind::boolean:
      if (node.is_boolean()) return *node.value<bool>();
      break;
    case Kind::integer:
      if (node.is_integer()) return *node.value<std::int64_t>();
      break;
    case Kind::number:
      if (node.is_number()) return *node.value<double>();
      break;
    case Kind::text:
      if (node.is_string()) return *node.value<std::string>();
      break;
    case Kind::texts:
      if (node.is_string()) return std::vector<std::string>{*node.value<std::string>()};
      if (node.is_array()) return list_of<std::string>(node);
      break;
    case Kind::pair:
      if (node.is_array() && node.as_array()->size() == 2) return list_of<double>(node);
      break;
  }
  return std::nullopt;
}

/// The part of a user's word that a message repeats.
std::string_view brief(std::string_view word) {
  return word.substr(0, 64);
}

bool satisfies(const Rule& rule, double x) {
  const bool low = rule.above_min ? x > rule.min : x >= rule.min;
  const bool high = rule.below_max ? x < rule.max : x <= rule.max;
  return low && high;
}

/// Why a value of the right type is not valid; empty if it is.
std::string broken_rule(const Key& key, const Value& value) {
  const std::string name = fmt::format("{}.{}", key.table, key.name);
  std::vector<double> numbers;
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    numbers = {static_cast<double>(*integer)};
  if (const auto* number = std::get_if<double>(&value)) numbers = {*number};
  if (const auto* list = std::get_if<std::vector<double>>(&value)) numbers = *list;
  for (const double x : numbers)
    if (key.rule && !satisfies(*key.rule, x))
      return fmt::format("{} = {} must be {}", name, to_toml(value), range_text(*key.rule));
  const auto* text = std::get_if<std::string>(&value);
  if (text && !key.choices.empty() && std::ranges::find(key.choices, *text) == key.choices.end())
    return fmt::format("{} = '{}': did you mean '{}'? It is one of {}", name, brief(*text),
                       nearest(*text, key.choices), quoted_list(key.choices));
  return "";
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
  return fmt::format("{}.{} must be {}, not '{}'", key.table, key.name, name_of(key.kind),
                     brief(text));
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

/// The node as a value of the key's kind. Throws Error{manifest} if it has another type.
Value require(const Key& key, const toml::node& node, const std::string& place) {
  std::optional<Value> value = convert(node, key.kind);
  if (!value)
    refuse(place, fmt::format("{}.{} must be {}, not {}", key.table, key.name, name_of(key.kind),
                              name_of(node.type())));
  return *value;
}

/// Whether an override's text has no quotes, which shells remove.
bool is_bare(const Key& key, const std::string& text) {
  if (key.kind != Kind::text && key.kind != Kind::texts) return false;
  const bool list = key.kind == Kind::texts && text.starts_with('[');
  return !text.starts_with('"') && !text.starts_with('\'') && !list;
}

std::string unknown_table(std::string_view table) {
  const auto tables = manifest_tables();
  return fmt::format("unknown table [{}]; did you mean [{}]? Tables are {}", brief(table),
                     nearest(table, tables), quoted_list(tables));
}

/// The nearest known key: first the one it was renamed to, then what another program's key is here,
/// then the same name in another table, then by edit distance.
std::string unknown_key(std::string_view table, std::string_view name) {
  for (const RenamedKey& key : kRenamedKeys)
    if (key.table == table && key.old_name == name)
      return fmt::format("'{0}.{1}' is called '{0}.{2}' now", table, name, key.name);
  for (const ForeignKey& key : foreign_keys())
    if (key.table == table && key.name == name)
      return fmt::format("'{}.{}' is a name of Megatron-LM; here {}", table, name, key.instead);
  std::vector<std::string_view> names;
  for (const Key& key : manifest_keys()) {
    if (key.name == name)
      return fmt::format("unknown key '{0}.{1}'; did you mean '{2}.{1}'?", table, name, key.table);
    if (key.table == table) names.push_back(key.name);
  }
  return fmt::format("unknown key '{0}.{1}'; did you mean '{0}.{2}'? Keys of [{0}] are {3}", table,
                     brief(name), nearest(name, names), quoted_list(names));
}

/// The message for a table or key at the top level of the file that is not a known table.
std::string unknown_top(std::string_view name, const toml::node& node) {
  const auto keys = manifest_keys();
  const auto key = std::ranges::find(keys, name, &Key::name);
  if (node.is_table() || key == keys.end()) return unknown_table(name);
  return fmt::format("'{}' stands outside of a table; did you mean it in [{}]?", name, key->table);
}

}  // namespace

void ManifestParser::set(const Key& key, Value value, Manifest::Origin origin,
                         const std::string& place) {
  const std::string name = fmt::format("{}.{}", key.table, key.name);
  const std::string broken = broken_rule(key, value);
  if (!broken.empty()) refuse(place, broken);
  manifest_.settings_[name] = {
      .value = std::move(value), .present = true, .origin = origin, .place = place};
}

void ManifestParser::defaults() {
  for (const Key& key : manifest_keys()) {
    const std::string name = fmt::format("{}.{}", key.table, key.name);
    if (key.fallback.empty()) {
      manifest_.settings_[name] = {};
      continue;
    }
    const toml::table parsed =
        parse_value(std::string(key.fallback), name, [&] { return std::string(key.fallback); });
    const std::optional<Value> value = convert(*parsed.get("value"), key.kind);
    TROUPE_ASSERT(value.has_value());
    set(key, *value, Manifest::Origin::fallback, name);
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
    if (std::ranges::find(tables, name.str()) == tables.end())
      refuse(place, unknown_top(name.str(), node));
    if (!node.is_table())
      refuse(place, fmt::format("[{}] must be a table, not {}", name.str(), name_of(node.type())));
    read_table(name.str(), *node.as_table());
  }
}

void ManifestParser::read_table(std::string_view table, const toml::table& nodes) {
  for (const auto& [name, node] : nodes) {
    const Key* key = find_key(table, name.str());
    if (!key) refuse(place_of(manifest_.name_, name.source()), unknown_key(table, name.str()));
    const std::string place = place_of(manifest_.name_, node.source());
    set(*key, require(*key, node, place), Manifest::Origin::file, place);
  }
}

void ManifestParser::mark_derived() {
  std::vector<std::string> names;
  for (const Key& key : manifest_keys())
    if (key.fallback.empty()) names.push_back(fmt::format("{}.{}", key.table, key.name));
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string list = "run.derived";
  for (const std::string& name : std::vector(manifest_.texts(list))) {
    if (std::ranges::find(names, name) == names.end())
      manifest_.fail(list,
                     fmt::format("run.derived names '{}'; did you mean '{}'? Derived keys are "
                                 "{}",
                                 brief(name), nearest(name, known), quoted_list(known)));
    Manifest::Setting& setting = manifest_.settings_[name];
    if (setting.origin != Manifest::Origin::file) continue;
    setting.origin = Manifest::Origin::derived;
    setting.written = setting.value;
  }
}

void ManifestParser::override_with(const std::string& assignment) {
  const std::string place = "--set " + assignment;
  const std::size_t equals = assignment.find('=');
  const std::size_t dot = assignment.substr(0, equals).find('.');
  if (equals == std::string::npos || dot == std::string::npos)
    throw Error(ErrorKind::usage, place + ": an override has the form table.key=value");
  const std::string table = assignment.substr(0, dot);
  const std::string name = assignment.substr(dot + 1, equals - dot - 1);
  const std::string text = assignment.substr(equals + 1);
  const auto tables = manifest_tables();
  if (std::ranges::find(tables, table) == tables.end()) refuse(place, unknown_table(table));
  const Key* key = find_key(table, name);
  if (!key) refuse(place, unknown_key(table, name));
  const toml::table parsed = parse_value(is_bare(*key, text) ? to_toml(Value(text)) : text, place,
                                         [&] { return not_of_kind(*key, text); });
  set(*key, require(*key, *parsed.get("value"), place), Manifest::Origin::override_, place);
}

}  // namespace troupe::launch
