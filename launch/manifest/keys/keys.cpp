#include <fmt/format.h>

#include <algorithm>

#include "launch/manifest/keys/adapter_keys.h"
#include "launch/manifest/keys/operation_keys.h"
#include "launch/manifest/keys/parallel_keys.h"
#include "launch/manifest/keys/run_keys.h"
#include "launch/manifest/keys/training_keys.h"

namespace troupe::launch {
namespace {

template <std::size_t... n>
constexpr auto joined(const std::array<Key, n>&... parts) {
  std::array<Key, (n + ...)> all{};
  auto end = all.begin();
  ((end = std::ranges::copy(parts, end).out), ...);
  return all;
}

constexpr auto kKeys = joined(kRunKeys, kAdapterKeys, kTrainingKeys, kParallelKeys, kOperationKeys);

}  // namespace

std::string Key::full_name() const {
  return fmt::format("{}.{}", table, name);
}

Value Key::get(const void* owner) const {
  Value value = member.get(owner);
  if (member.choices.empty()) return value;
  const auto* flag = std::get_if<bool>(&value);
  return std::string(
      member.choices[static_cast<std::size_t>(flag ? *flag : std::get<std::int64_t>(value))]);
}

void Key::set(void* owner, Value value) const {
  if (member.choices.empty()) return member.set(owner, std::move(value));
  const std::int64_t number =
      std::ranges::find(member.choices, std::get<std::string>(value)) - member.choices.begin();
  member.set(owner, member.kind == Kind::boolean ? Value(number != 0) : Value(number));
}

std::span<const Key> manifest_keys() {
  return kKeys;
}

template <>
std::span<const Key> row_keys<Source>() {
  return kMixKeys;
}

template <>
std::span<const Key> row_keys<EvalSet>() {
  return kSetKeys;
}

template <>
std::span<const Key> row_keys<stages::ParameterGroup>() {
  return kGroupKeys;
}

template <>
std::span<const Key> row_keys<Settings::Stage>() {
  return kStageKeys;
}

const Key* find_key(std::string_view table, std::string_view name) {
  const auto found =
      std::ranges::find_if(kKeys, [&](const Key& k) { return k.table == table && k.name == name; });
  return found == kKeys.end() ? nullptr : &*found;
}

std::string range_text(const Rule& rule) {
  const auto end = [](double x) {
    return x < 1e15 ? fmt::format("{:.0f}", x) : fmt::format("{}", x);
  };
  const std::string low =
      fmt::format("{} {}", rule.above_min ? "above" : "at least", end(rule.min));
  if (rule.max == kInfinity) return rule.below_max ? low + " and finite" : low;
  return fmt::format("{} and {} {}", low, rule.below_max ? "below" : "at most", end(rule.max));
}

std::vector<std::string_view> manifest_tables() {
  std::vector<std::string_view> tables;
  for (const Key& key : kKeys)
    if (tables.empty() || tables.back() != key.table) tables.push_back(key.table);
  return tables;
}

}  // namespace troupe::launch
