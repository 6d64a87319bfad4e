#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::launch {

/// What a manifest's key may hold. An integer is accepted for a number, one text for a list of
/// texts; a pair is a list of two numbers.
enum class Kind { boolean, integer, number, text, texts, pair };
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>,
                           std::vector<double>>;

/// What a number or every number of a list must satisfy.
struct Rule {
  double min = 0;
  double max = 0;
  bool below_max = false;  ///< max itself is not allowed
  bool above_min = false;  ///< min itself is not allowed
};

/// One key of the manifest: the only place that knows it. Parsing, suggestions, type and range
/// checks, the resolved manifest and the reference in launch/README.md all follow this table.
struct Key {
  std::string_view table;
  std::string_view name;
  Kind kind = Kind::integer;
  std::string_view fallback;  ///< as TOML; empty: derived from other keys, as `meaning` says
  std::string_view unit;
  std::string_view meaning;  ///< what it is, and why the default is what it is
  std::optional<Rule> rule;
  std::span<const std::string_view> choices;  ///< of a text; empty: any
};

/// Every key, by table, in the order in which the resolved manifest prints them.
std::span<const Key> manifest_keys();

/// A key that manifests of earlier versions have under another name.
struct RenamedKey {
  std::string_view table, old_name, name;
};
inline constexpr std::array kRenamedKeys{RenamedKey{"recovery", "on_loss", "on_failure"}};
/// Null for a name that is no key.
const Key* find_key(std::string_view table, std::string_view name);
/// "at least 1 and at most 4096".
std::string range_text(const Rule& rule);
/// Names of the tables in their order.
std::vector<std::string_view> manifest_tables();

}  // namespace troupe::launch
