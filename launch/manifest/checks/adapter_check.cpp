#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "launch/host/suggest.h"
#include "launch/manifest/checks/check.h"

namespace troupe::launch {
namespace {

/// What the user may have meant by the first target that cannot be one; empty if there is none.
std::string meant(const stages::ModelConfig& model) {
  const std::vector<std::string> known = stages::adapter_targets(model);
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (const std::string& target : model.adapter->targets)
    if (std::ranges::find(known, target) == known.end() && !names.empty())
      return fmt::format("; did you mean '{}'?", nearest(target, names));
  return "";
}

}  // namespace

void check_adapter(const Manifest& m) {
  if (!m->model.adapter) return;
  const tensor::FieldFault fault = stages::check_adapter(m->model);
  if (fault.empty()) return;
  const stages::Adapter &checked = *m->model.adapter, &keys = m->adapter;
  if (fault.field == &checked.targets)
    m.fail(keys.targets, "adapter.{}{}", fault.sentence, meant(m->model));
  if (fault.field == &checked.rank) m.fail(keys.rank, "adapter.{}", fault.sentence);
  if (fault.field == &checked.alpha) m.fail(keys.alpha, "adapter.{}", fault.sentence);
  m.fail(keys.dropout, "adapter.{}", fault.sentence);
}

}  // namespace troupe::launch
