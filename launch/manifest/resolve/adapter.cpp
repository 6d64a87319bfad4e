#include "launch/manifest/resolve/adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "stages/files/peft/peft_config.h"
#include "stages/storage/input_file.h"

namespace troupe::launch {
namespace {

using Texts = std::vector<std::string>;

/// The first key of [adapter] that the user has given; null if none is.
const Key* given_key(const Manifest& m) {
  for (const Key& key : manifest_keys())
    if (key.table == "adapter" && m.given(key)) return &key;
  return nullptr;
}

Texts sorted(Texts names) {
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

/// Gives a key its value in adapter.from. From now on the key counts as given.
void settle_as(Manifest& m, const Key& key, const Value& value) {
  if (!m.given(key)) return m.settle(key, value);
  if (m.value(key) != value)
    m.fail(key, "{} = {} contradicts the adapter in adapter.from, where it is {}; leave it out",
           key.full_name(), to_toml(m.value(key)), to_toml(value));
}

/// Takes what the directory says, or what a resolved manifest keeps of one that is gone.
void take_adapter(Manifest& m) {
  std::string& from = m->adapter_from;
  from = m.absolute(m.key_of(from), from);
  stages::Adapter& own = m->adapter;
  if (!own.targets.empty() && !stages::file_exists(from)) return;
  if (!stages::holds_adapter(from))
    m.fail_as(ErrorKind::data, from, "{}",
              stages::why_unreadable(std::filesystem::path(from) / stages::kAdapterConfigFile,
                                     from + " holds no adapter_config.json, as directories of "
                                            "PEFT do"));
  const stages::Adapter found =
      m.about(from, [&] { return stages::read_peft_config(from, m->model); });
  settle_as(m, m.key_of(own.rank), found.rank);
  settle_as(m, m.key_of(own.alpha), found.alpha);
  settle_as(m, m.key_of(own.rslora), found.rslora);
  settle_as(m, m.key_of(own.targets), found.targets);
  if (!m.given(own.dropout)) m.settle(m.key_of(own.dropout), found.dropout);
}

}  // namespace

std::optional<stages::Adapter> adapter_of(const Settings& settings) {
  if (settings.adapter.targets.empty()) return std::nullopt;
  stages::Adapter adapter = settings.adapter;
  adapter.base = settings.model_from;
  return adapter;
}

std::filesystem::path base_of(const Settings& settings) {
  return settings.adapter.targets.empty() ? std::string() : settings.model_from;
}

void resolve_adapter(Manifest& m) {
  const Key* given = given_key(m);
  if (!given) return;
  if (m->model_from.empty())
    m.fail(*given,
           "{} needs model.from, the directory of the model that the adapter is for; a fresh model "
           "is trained whole",
           given->full_name());
  if (stages::holds_adapter(m->model_from))
    m.fail(m->model_from,
           "model.from = {} holds an adapter; name it in adapter.from and its base here, or merge "
           "both by export",
           m->model_from);
  Texts& targets = m->adapter.targets;
  const Key& key = m.key_of(targets);
  if (!targets.empty()) m.settle(key, sorted(targets));
  if (targets == Texts{"all-linear"}) m.settle(key, stages::adapter_targets(m->model));
  if (!m->adapter_from.empty()) take_adapter(m);
  if (targets.empty())
    m.fail(*given, "adapter.targets must name the modules that get an adapter; the layers have {}",
           fmt::join(stages::adapter_targets(m->model), ", "));
  m->model.adapter = adapter_of(*m);
}

}  // namespace troupe::launch
