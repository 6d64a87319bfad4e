#include "launch/manifest/toml/toml_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "launch/host/suggest.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/manifest/toml/synonyms.h"

namespace troupe::launch {
namespace {

/// The elements of a list as T; none if one of them is not a T.
template <typename T>
std::optional<std::vector<T>> list_of(const toml::node& node) {
  std::vector<T> items;
  for (const toml::node& item : *node.as_array()) {
    const std::optional<T> value = item.value<T>();
    if (!value || item.is_boolean()) return std::nullopt;
    items.push_back(*value);
  }
  return items;
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

bool is_number(const std::string& text, double& number) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size();
}

/// Why a value of the right type is not valid; empty if it is.
std::string broken_rule(const Key& key, const Value& value) {
  const std::string name = key.full_name();
  const auto choices = key.member.choices;
  std::vector<double> numbers;
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    numbers = {static_cast<double>(*integer)};
  if (const auto* number = std::get_if<double>(&value)) numbers = {*number};
  if (const auto* pair = std::get_if<std::array<double, 2>>(&value))
    numbers = {pair->begin(), pair->end()};
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value); texts && key.rule)
    for (const std::string& text : *texts)
      if (double number = 0; is_number(text, number)) numbers.push_back(number);
  for (const double x : numbers)
    if (key.rule && !satisfies(*key.rule, x))
      return fmt::format("{} = {} must be {}", name, to_toml(value), range_text(*key.rule));
  const auto* text = std::get_if<std::string>(&value);
  if (text && !choices.empty() && std::ranges::find(choices, *text) == choices.end()) {
    if (const auto synonym = value_synonym(key.table, key.name, *text); !synonym.empty())
      return fmt::format("{} = '{}': {}; it is one of {}", name, brief(*text), synonym,
                         quoted_list(choices));
    return fmt::format("{} = '{}': did you mean '{}'? It is one of {}", name, brief(*text),
                       nearest(*text, choices), quoted_list(choices));
  }
  return "";
}

/// The nearest key of a list of tables: first what others call so, then by edit distance. What it
/// means goes with it, because others may count in another way.
std::string unknown_row_key(std::span<const Key> keys, std::string_view name) {
  const std::string_view list = keys.front().table;
  std::vector<std::string_view> names;
  for (const Key& key : keys) names.push_back(key.name);
  const Key* called = find_key_called(keys, name);
  const std::string_view meant = called ? called->name : nearest(name, names);
  return fmt::format("unknown key '{}' of [[{}]]; did you mean '{}' ({})? Its keys are {}",
                     brief(name), list, meant, std::ranges::find(keys, meant, &Key::name)->meaning,
                     quoted_list(names));
}

template <typename Row>
Row row_of(const toml::table& table, const PlaceOf& place_of) {
  const std::span<const Key> keys = row_keys<Row>();
  for (const auto& [name, node] : table)
    if (std::ranges::find(keys, name.str(), &Key::name) == keys.end())
      refuse(place_of(node), unknown_row_key(keys, name.str()));
  Row row;
  for (const Key& key : keys) {
    const toml::node* node = table.get(key.name);
    if (node)
      key.set(&row, value_of(key, *node, place_of));
    else if (key.fallback.empty())
      refuse(place_of(table),
             fmt::format("a table of [[{}]] has no {}: {}", key.table, key.name, key.meaning));
  }
  return row;
}

/// A list of tables; none if it is something else. It may be empty.
template <typename Row>
std::optional<Value> rows_of(const toml::node& node, const PlaceOf& place_of) {
  if (!node.is_array()) return std::nullopt;
  std::vector<Row> rows;
  for (const toml::node& item : *node.as_array()) {
    if (!item.is_table()) return std::nullopt;
    rows.push_back(row_of<Row>(*item.as_table(), place_of));
  }
  return rows;
}

/// A list of texts and integers, as texts; none if it is something else.
std::optional<Value> texts_of(const toml::array& list) {
  std::vector<std::string> texts;
  for (const toml::node& item : list) {
    if (item.is_integer())
      texts.push_back(std::to_string(*item.value<std::int64_t>()));
    else if (item.is_string())
      texts.push_back(*item.value<std::string>());
    else
      return std::nullopt;
  }
  return texts;
}

/// A table of texts; none if it is something else.
std::optional<Value> names_of(const toml::table& table) {
  Names names;
  for (const auto& [name, node] : table) {
    if (!node.is_string()) return std::nullopt;
    names[std::string(name.str())] = *node.value<std::string>();
  }
  return names;
}

/// The node as a value of the key's kind; none if it has another type.
std::optional<Value> convert(const toml::node& node, const Key& key, const PlaceOf& place_of) {
  switch (key.kind()) {
    case Kind::boolean:
      return node.value_exact<bool>();
    case Kind::integer:
      return node.value_exact<std::int64_t>();
    case Kind::number:
      if (node.is_number()) return node.value<double>();
      break;
    case Kind::text:
      return node.value_exact<std::string>();
    case Kind::texts:
      if (node.is_string()) return std::vector<std::string>{*node.value<std::string>()};
      if (node.is_integer() && key.rule) return std::vector{as_written(node)};
      if (node.is_array() && key.rule) return texts_of(*node.as_array());
      if (node.is_array()) return list_of<std::string>(node);
      break;
    case Kind::pair:
      if (node.is_array() && node.as_array()->size() == 2)
        if (const auto list = list_of<double>(node)) return std::array{list->front(), list->back()};
      break;
    case Kind::mix:
      return rows_of<Source>(node, place_of);
    case Kind::sets:
      return rows_of<EvalSet>(node, place_of);
    case Kind::groups:
      return rows_of<stages::ParameterGroup>(node, place_of);
    case Kind::stages:
      return rows_of<Settings::Stage>(node, place_of);
    case Kind::names:
      if (node.is_table()) return names_of(*node.as_table());
  }
  return std::nullopt;
}

}  // namespace

void refuse(const std::string& place, const std::string& message) {
  throw Error(ErrorKind::manifest, fmt::format("{}: {}", place, message));
}

std::string_view brief(std::string_view word) {
  return word.substr(0, 64);
}

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, 11> kNames{
      "true or false",
      "an integer",
      "a number",
      "a text in quotes",
      "a text or a list of texts, in quotes",
      "a list of two numbers",
      "a list of tables, as [[data.mix]] makes it",
      "a list of tables, as [[eval.set]] makes it",
      "a list of tables, as [[optimizer.group]] makes it",
      "a list of tables, as [[stage]] makes it",
      "a table of texts, as {prompt = \"question\"}"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(toml::node_type type) {
  constexpr std::array<std::string_view, 7> kNames{
      "", "a table", "another list", "a text", "an integer", "a number", "true or false"};
  const auto number = static_cast<std::size_t>(type);
  return number < kNames.size() ? kNames[number] : "a date or time";
}

Value value_of(const Key& key, const toml::node& node, const PlaceOf& place_of) {
  std::optional<Value> value = convert(node, key, place_of);
  if (!value) {
    const std::string synonym = value_synonym(key.table, key.name, as_written(node));
    refuse(place_of(node),
           fmt::format("{} must be {}, not {}{}", key.full_name(), name_of(key.kind()),
                       name_of(node.type()), synonym.empty() ? "" : "; " + synonym));
  }
  if (const std::string broken = broken_rule(key, *value); !broken.empty())
    refuse(place_of(node), broken);
  return *std::move(value);
}

}  // namespace troupe::launch
