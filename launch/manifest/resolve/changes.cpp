#include "launch/manifest/resolve/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "actors/topology/shape_rules.h"

namespace troupe::launch {
namespace {

/// Tables and keys that change no bit of a loss: how a run is watched, saved and divided over
/// stages.
constexpr std::array<std::string_view, 29> kWithoutEffect{
    "run.name",
    "run.dir",
    "run.max_steps",
    "run.derived",
    "run.changed",
    "data.tokens",
    "optimizer.validation",
    "mesh.pp",
    "mesh.layout",
    "schedule.chunks",
    "schedule.csv",
    "schedule.costs",
    "schedule.auto_layout",
    "schedule.auto_layout_gain",
    "schedule.auto_layout_steps",
    "cluster.pin",
    "cluster.spin",
    "cluster.port",
    "cluster.interface",
    "cluster.ports",
    "data_parallel.prefetch",
    "data_parallel.reshard_after_forward",
    "data_parallel.bucket_size",
    "data_parallel.num_buckets",
    "data_parallel.overlap_grad_reduce",
    "data_parallel.overlap_param_gather",
    "data_parallel.check_for_nan",
    "data_parallel.large_grad_norm",
    "data_parallel.on_difference",
};
constexpr std::array<std::string_view, 5> kTablesWithoutEffect{"recompute", "checkpoint", "eval",
                                                               "recovery", "monitor"};

bool keeps_one_copy(const std::string& kind) {
  return kind != "csv" && actors::copies_of({.kind = kind}) == 1;
}

/// Whether steps may compute other numbers with the one value than with the other.
bool matters(const std::string& name, const Value& was, const Value& is) {
  if (was == is) return false;
  if (name == "schedule.kind")
    return !keeps_one_copy(std::get<std::string>(was)) ||
           !keeps_one_copy(std::get<std::string>(is));
  // Not known before the text is tokenized.
  return name != "data.digest" || !(was == Value(std::string()) || is == Value(std::string()));
}

/// A value without what launch writes into it.
Value as_given(Value value) {
  if (auto* mix = std::get_if<Mix>(&value))
    for (Source& source : *mix) source.tokens = "";
  return value;
}

}  // namespace

void note_changes(Manifest& after, const Manifest& before, std::int64_t from_step) {
  after->changed = before->changed;
  for (const Key& key : manifest_keys()) {
    const std::string name = key.full_name();
    if (std::ranges::count(kTablesWithoutEffect, key.table) > 0 ||
        std::ranges::count(kWithoutEffect, name) > 0 || !before.has(key) || !after.has(key))
      continue;
    const Value was = as_given(before.value(key)), is = as_given(after.value(key));
    if (matters(name, was, is))
      after->changed.push_back(fmt::format("from step {} on: {} = {}, was {}", from_step, name,
                                           to_toml(is), to_toml(was)));
  }
}

const Manifest& ReshapedManifest::take(Manifest changed, std::int64_t from_step, bool ordered) {
  note_changes(changed, now_, from_step);
  if (ordered)
    kept_ = changed;
  else
    kept_->changed = changed->changed;
  now_ = std::move(changed);
  return kept_;
}

}  // namespace troupe::launch
