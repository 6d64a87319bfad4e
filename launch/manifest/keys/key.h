#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/manifest/keys/member.h"

namespace troupe::launch {

/// The range that a number, or every number of a list, must be in. A list of texts that has one may
/// hold integers too.
struct Rule {
  double min = 0;
  double max = 0;
  bool below_max = false;  ///< whether max itself is excluded
  bool above_min = false;  ///< whether min itself is excluded
};

// Ranges that several keys have.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr Rule kNotNegative{.min = 0, .max = kInfinity};
inline constexpr Rule kFinite{.min = 0, .max = kInfinity, .below_max = true};
inline constexpr Rule kPositive{.min = 0, .max = kInfinity, .below_max = true, .above_min = true};
inline constexpr Rule kFraction{.min = 0, .max = 1, .below_max = true};
inline constexpr std::nullopt_t kAny = std::nullopt;
/// A range from 1 to `max`. The upper ends keep every product of sizes far inside 64 bits.
constexpr Rule from_one_to(double max) {
  return {.min = 1, .max = max};
}
constexpr Rule from_zero_to(double max) {
  return {.min = 0, .max = max};
}

/// One key of the manifest. The tables of keys are the only place that defines them: parsing,
/// suggestions, type and range checks, the run's spec, the resolved manifest and the reference in
/// launch/manifest/README.md follow them.
struct Key {
  std::string_view table;
  std::string_view name;
  Member member;
  /// The default as TOML; empty for a key that is derived from others, as `meaning` says.
  std::string_view fallback;
  std::string_view unit;
  std::string_view meaning;  ///< what the key sets, and the reason for its default
  std::optional<Rule> rule = std::nullopt;
  /// Its names in other trainers, separated by spaces; one with its table is for that table alone.
  std::string_view called = {};
  bool is_rare = false;  ///< a resolved manifest has it only if it differs from its default

  std::string full_name() const;  ///< "table.name"
  Kind kind() const { return member.choices.empty() ? member.kind : Kind::text; }
  /// The value in the struct whose member the key sets: Settings, or that of a list's table.
  Value get(const void* owner) const;
  /// Sets it to a value of the key's kind, one of its choices if it has some.
  void set(void* owner, Value value) const;
};

/// All keys, grouped by table, in the order in which the resolved manifest prints them. They set
/// members of Settings.
std::span<const Key> manifest_keys();
/// The keys of a table of Mix, EvalSets, Groups or Stages, which set members of a Row. One without
/// a default must be given. The default may be the name of another key.
template <typename Row>
std::span<const Key> row_keys();

/// The key of a table with this name; null if there is none.
const Key* find_key(std::string_view table, std::string_view name);
/// The rule as a phrase for messages: "at least 1 and at most 4096".
std::string range_text(const Rule& rule);
/// The names of the tables, in the order of manifest_keys().
std::vector<std::string_view> manifest_tables();

}  // namespace troupe::launch
