#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// Structs as JSON objects, both ways, by one list of the fields of each:
//
//   TROUPE_JSON_FIELDS(actors::CatchUp, x.back_to, x.reached)
//
// A field has the name of its member, unless keyed() gives it another. nlohmann's functions write a
// struct that has a list, read_fields() reads it. What is read may come from a run of another
// version: a field that is missing or of another type counts as empty, a number with a point as
// NaN.

namespace troupe::launch {

/// A field with a name of its own: of a member, or, if T is no reference, of a value that follows
/// from members and is not read.
template <typename T>
struct Keyed {
  const char* key;
  T value;
};
template <typename T>
Keyed<T> keyed(const char* key, T&& value) {
  return {key, std::forward<T>(value)};
}
/// A field that is left out while its member is empty or 0.
template <typename T>
struct UnlessEmpty {
  T& value;
};
template <typename T>
UnlessEmpty<T> unless_empty(T& value) {
  return {value};
}

template <typename Visitor, typename T>
void visit_field(const Visitor& visit, std::string_view name, T& value) {
  visit(name, value);
}
template <typename Visitor, typename T>
void visit_field(const Visitor& visit, std::string_view, Keyed<T> field) {
  if constexpr (std::is_reference_v<T> || !Visitor::kReads) visit(field.key, field.value);
}
template <typename Visitor, typename T>
void visit_field(const Visitor& visit, std::string_view name, UnlessEmpty<T> field) {
  if (Visitor::kReads || field.value != T{}) visit(name, field.value);
}

/// Takes the first expression off the text of a list. Returns the name of the member in it.
constexpr std::string_view take_name(std::string_view& list) {
  std::size_t end = 0;
  for (int depth = 0; end < list.size() && (depth > 0 || list[end] != ','); ++end)
    depth += list[end] == '(' ? 1 : list[end] == ')' ? -1 : 0;
  std::string_view first = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  first = first.substr(0, first.find(')'));
  return first.substr(first.rfind('.') + 1);
}

template <typename Visitor, typename... Fields>
void visit_list(std::string_view names, const Visitor& visit, Fields&&... fields) {
  (visit_field(visit, take_name(names), fields), ...);
}

#define TROUPE_JSON_FIELDS(Type, ...)                 \
  template <typename T, typename Visitor>             \
  requires std::same_as<std::remove_const_t<T>, Type> \
  void visit_fields(T& x, const Visitor& visit) {     \
    visit_list(#__VA_ARGS__, visit, __VA_ARGS__);     \
  }

struct FieldReader {
  static constexpr bool kReads = true;
  const nlohmann::json& from;
  template <typename T>
  void operator()(std::string_view name, T& value) const;
};

template <typename Json>
struct FieldWriter {
  static constexpr bool kReads = false;
  Json& out;
  template <typename T>
  void operator()(std::string_view name, const T& value) const {
    out[std::string(name)] = value;
  }
  template <typename T>
  void operator()(std::string_view name, const std::optional<T>& value) const {
    if (value) (*this)(name, *value);
  }
};

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// A struct that has a list.
template <typename T>
concept Listed = requires(T& x, const FieldReader& reader) {
  visit_fields(x, reader);
};

template <typename T>
void read_value(const nlohmann::json& from, T& value) {
  if constexpr (Listed<T>) {
    visit_fields(value, FieldReader{from});
  } else if constexpr (std::floating_point<T>) {
    value = from.is_number() ? from.get<T>() : std::numeric_limits<T>::quiet_NaN();
  } else if constexpr (std::same_as<T, bool>) {
    if (from.is_boolean()) value = from.get<T>();
  } else if constexpr (std::integral<T>) {
    if (!from.is_number_integer()) return;
    // A number without a sign may be larger than any that has one.
    const bool fits = from.is_number_unsigned() ? std::in_range<T>(from.get<std::uint64_t>())
                                                : std::in_range<T>(from.get<std::int64_t>());
    if (fits) value = from.get<T>();
  } else if constexpr (std::same_as<T, std::string>) {
    if (from.is_string()) value = from.get<T>();
  } else if constexpr (std::same_as<T, nlohmann::json>) {
    value = from;
  } else if constexpr (std::same_as<T, std::map<std::string, std::string>>) {
    if (!from.is_object()) return;
    for (const auto& [key, text] : from.items())
      if (text.is_string()) value[key] = text.template get<std::string>();
  } else if constexpr (kIsOptional<T>) {
    if (from.is_object()) read_value(from, value.emplace());
  } else {
    constexpr bool kNumbers = std::is_arithmetic_v<typename T::value_type>;
    if (!from.is_array()) return;
    for (const nlohmann::json& each : from)
      if (kNumbers ? each.is_number() : each.is_object()) read_value(each, value.emplace_back());
  }
}

template <typename T>
void FieldReader::operator()(std::string_view name, T& value) const {
  static const nlohmann::json kNone;
  const auto field = from.find(name);
  read_value(field != from.end() ? *field : kNone, value);
}

/// The struct in an object.
template <Listed T>
T read_fields(const nlohmann::json& object) {
  T value;
  read_value(object, value);
  return value;
}
/// The value of a field.
template <typename T>
T field_of(const nlohmann::json& object, std::string_view name, T otherwise = {}) {
  FieldReader{object}(name, otherwise);
  return otherwise;
}
inline double number_of(const nlohmann::json& object, std::string_view name) {
  return field_of<double>(object, name);
}
inline std::int64_t integer_of(const nlohmann::json& object, std::string_view name,
                               std::int64_t otherwise = 0) {
  return field_of(object, name, otherwise);
}
inline std::string text_of(const nlohmann::json& object, std::string_view name) {
  return field_of<std::string>(object, name);
}
/// The objects in an array; other elements are left out.
inline std::vector<nlohmann::json> objects_of(const nlohmann::json& object, std::string_view name) {
  return field_of<std::vector<nlohmann::json>>(object, name);
}

}  // namespace troupe::launch

template <troupe::launch::Listed T>
struct nlohmann::adl_serializer<T, void> {
  template <typename Json>
  static void to_json(Json& out, const T& value) {
    out = Json::object();
    visit_fields(value, troupe::launch::FieldWriter<Json>{out});
  }
};
