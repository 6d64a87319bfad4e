#include "launch/manifest/toml/toml_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "launch/host/suggest.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/manifest/toml/synonyms.h"

namespace troupe::launch {
namespace {

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

/// The node as a value of `kind`, which is no list of tables; none if it has another type.
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
    case Kind::mix:
    case Kind::sets:
    case Kind::groups:
      break;
  }
  return std::nullopt;
}

/// An integer or a boolean as it is written; empty for anything else.
std::string as_written(const toml::node& node) {
  if (node.is_integer()) return fmt::format("{}", *node.value<std::int64_t>());
  if (node.is_boolean()) return fmt::format("{}", *node.value<bool>());
  return "";
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
  if (text && !key.choices.empty() && std::ranges::find(key.choices, *text) == key.choices.end()) {
    if (const auto synonym = value_synonym(key.table, key.name, *text); !synonym.empty())
      return fmt::format("{} = '{}': {}; it is one of {}", name, brief(*text), synonym,
                         quoted_list(key.choices));
    return fmt::format("{} = '{}': did you mean '{}'? It is one of {}", name, brief(*text),
                       nearest(*text, key.choices), quoted_list(key.choices));
  }
  return "";
}

/// Sets one key of a source. The key's kind says what the value is.
void set(MixSource& source, const Key& key, Value value) {
  if (key.name == "weight") {
    source.weight = std::get<double>(value);
  } else if (key.name == "files") {
    source.files = std::get<std::vector<std::string>>(std::move(value));
  } else {
    auto& text = key.name == "name"     ? source.name
                 : key.name == "tokens" ? source.tokens
                                        : source.digest;
    text = std::get<std::string>(std::move(value));
  }
}

/// Sets one key of an evaluation set.
void set(EvalSet& eval_set, const Key& key, Value value) {
  if (key.name == "files") {
    eval_set.files = std::get<std::vector<std::string>>(std::move(value));
  } else if (key.name == "samples") {
    eval_set.samples = std::get<std::int64_t>(value);
  } else {
    auto& text = key.name == "name"     ? eval_set.name
                 : key.name == "tokens" ? eval_set.tokens
                                        : eval_set.digest;
    text = std::get<std::string>(std::move(value));
  }
}

/// Sets one key of a group.
void set(stages::ParameterGroup& group, const Key& key, Value value) {
  if (key.name == "match")
    group.match = std::get<std::string>(std::move(value));
  else if (key.name == "frozen")
    group.update.frozen = std::get<bool>(value);
  else if (key.name == "lr_scale")
    group.update.lr_scale = std::get<double>(value);
  else
    group.update.weight_decay = std::get<double>(value);
}

/// The nearest key of a list of tables: first what others call so, then by edit distance. What it
/// means goes with it, because others may count in another way.
std::string unknown_row_key(std::span<const Key> keys, std::string_view name) {
  const std::string_view list = keys.front().table;
  std::vector<std::string_view> names;
  for (const Key& key : keys) names.push_back(key.name);
  const std::string_view synonym = find_synonym(row_key_synonyms(list), name);
  const std::string_view meant = synonym.empty() ? nearest(name, names) : synonym;
  return fmt::format("unknown key '{}' of [[{}]]; did you mean '{}' ({})? Its keys are {}",
                     brief(name), list, meant, std::ranges::find(keys, meant, &Key::name)->meaning,
                     quoted_list(names));
}

template <typename Row>
Row row_of(const toml::table& table, std::span<const Key> keys, const PlaceOf& place_of) {
  const std::string_view list = keys.front().table;
  for (const auto& [name, node] : table)
    if (std::ranges::find(keys, name.str(), &Key::name) == keys.end())
      refuse(place_of(node), unknown_row_key(keys, name.str()));
  Row row;
  for (const Key& key : keys) {
    const toml::node* node = table.get(key.name);
    if (node)
      set(row, key, value_of(key, *node, place_of));
    else if (key.fallback.empty())
      refuse(place_of(table),
             fmt::format("a table of [[{}]] has no {}: {}", list, key.name, key.meaning));
  }
  return row;
}

/// A list of tables with these keys; none if it is something else. It may be empty.
template <typename Row>
std::optional<Value> rows_of(const toml::node& node, std::span<const Key> keys,
                             const PlaceOf& place_of) {
  if (!node.is_array()) return std::nullopt;
  std::vector<Row> rows;
  for (const toml::node& item : *node.as_array()) {
    if (!item.is_table()) return std::nullopt;
    rows.push_back(row_of<Row>(*item.as_table(), keys, place_of));
  }
  return rows;
}

std::optional<Value> convert(const Key& key, const toml::node& node, const PlaceOf& place_of) {
  if (key.kind == Kind::mix) return rows_of<MixSource>(node, mix_keys(), place_of);
  if (key.kind == Kind::sets) return rows_of<EvalSet>(node, set_keys(), place_of);
  if (key.kind == Kind::groups)
    return rows_of<stages::ParameterGroup>(node, group_keys(), place_of);
  return convert(node, key.kind);
}

}  // namespace

void refuse(const std::string& place, const std::string& message) {
  throw Error(ErrorKind::manifest, fmt::format("{}: {}", place, message));
}

std::string_view brief(std::string_view word) {
  return word.substr(0, 64);
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
    case Kind::mix:
      return "a list of tables, as [[data.mix]] makes it";
    case Kind::sets:
      return "a list of tables, as [[eval.set]] makes it";
    case Kind::groups:
      return "a list of tables, as [[optimizer.group]] makes it";
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

Value value_of(const Key& key, const toml::node& node, const PlaceOf& place_of) {
  std::optional<Value> value = convert(key, node, place_of);
  if (!value) {
    const std::string synonym = value_synonym(key.table, key.name, as_written(node));
    refuse(place_of(node),
           fmt::format("{}.{} must be {}, not {}{}", key.table, key.name, name_of(key.kind),
                       name_of(node.type()), synonym.empty() ? "" : "; " + synonym));
  }
  if (const std::string broken = broken_rule(key, *value); !broken.empty())
    refuse(place_of(node), broken);
  return *std::move(value);
}

}  // namespace troupe::launch
