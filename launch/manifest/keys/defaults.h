#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launch/manifest/keys/eval_set.h"
#include "launch/manifest/keys/mix.h"
#include "stages/model/parameter_group.h"

namespace troupe::launch {

/// The tables of [[optimizer.group]]. group_keys() says what their keys mean.
using Groups = std::vector<stages::ParameterGroup>;

/// The kind of value that a key of the manifest holds. An integer is accepted as a number, and one
/// text as a list of texts; a pair is a list of two numbers, mix, sets and groups are lists of
/// tables.
enum class Kind { boolean, integer, number, text, texts, pair, mix, sets, groups };
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>,
                           std::vector<double>, Mix, EvalSets, Groups>;

/// The range that a number, or every number of a list, must be in.
struct Rule {
  double min = 0;
  double max = 0;
  bool below_max = false;  ///< whether max itself is excluded
  bool above_min = false;  ///< whether min itself is excluded
};

/// One key of the manifest. The table of keys is the only place that defines them: parsing,
/// suggestions, type and range checks, the resolved manifest and the reference in
/// launch/manifest/README.md follow it.
struct Key {
  std::string_view table;
  std::string_view name;
  Kind kind = Kind::integer;
  /// The default as TOML; empty for a key that is derived from others, as `meaning` says.
  std::string_view fallback;
  std::string_view unit;
  std::string_view meaning;  ///< what the key sets, and the reason for its default
  std::optional<Rule> rule;
  std::span<const std::string_view> choices;  ///< valid values of a text; empty: any
};

/// All keys, grouped by table, in the order in which the resolved manifest prints them.
std::span<const Key> manifest_keys();
/// The keys of a table of [[data.mix]], in the order in which the resolved manifest prints them.
/// One without a default must be given. The default may be the name of another key.
std::span<const Key> mix_keys();
/// The keys of a table of [[eval.set]].
std::span<const Key> set_keys();
/// The keys of a table of [[optimizer.group]].
std::span<const Key> group_keys();

/// A key that has another name in manifests of earlier versions.
struct RenamedKey {
  std::string_view table, old_name, name;
};
inline constexpr std::array kRenamedKeys{RenamedKey{"recovery", "on_loss", "on_failure"}};

/// A key of Megatron-LM that the manifest does not have, and what is there instead.
struct ForeignKey {
  std::string_view table, name, instead;
};
std::span<const ForeignKey> foreign_keys();
/// The key of a table with this name; null if there is none.
const Key* find_key(std::string_view table, std::string_view name);
/// The rule as a phrase for messages: "at least 1 and at most 4096".
std::string range_text(const Rule& rule);
/// The names of the tables, in the order of manifest_keys().
std::vector<std::string_view> manifest_tables();

}  // namespace troupe::launch
