#include <fmt/format.h>

#include <array>
#include <cmath>

#include "launch/host/quantities.h"
#include "launch/manifest/keys/key.h"
#include "launch/planner/search.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// The word of a choice.
template <typename Choice>
std::string word_of(const char* table, const char* name, Choice choice) {
  return std::string(find_key(table, name)->member.choices[static_cast<std::size_t>(choice)]);
}
std::string recompute_of(const CandidateLayout& layout) {
  return word_of("recompute", "mode", layout.recompute);
}
std::string sharding_of(const CandidateLayout& layout) {
  return word_of("data_parallel", "sharding", layout.division);
}

json layout_json(const FoundLayout& found) {
  const CandidateLayout& layout = found.layout;
  json out{{"mesh",
            {{"tp", layout.mesh.tp},
             {"pp", layout.mesh.pp},
             {"dp", layout.mesh.dp},
             {"sequence_parallel", layout.mesh.sequence_parallel},
             {"layout", layout.split}}},
           {"schedule", {{"kind", layout.kind}, {"chunks", layout.chunks}}},
           {"batch", {{"micro", layout.micro}}},
           {"recompute", {{"mode", recompute_of(layout)}}},
           {"data_parallel", {{"sharding", sharding_of(layout)}}},
           {"predicted", to_json(found.prediction)}};
  if (layout.mesh.ep > 1) out["mesh"]["ep"] = layout.mesh.ep;
  if (layout.mesh.etp > 0) out["mesh"]["etp"] = layout.mesh.etp;
  return out;
}

/// "8", and "8/1" where experts are whole on each shard.
std::string shards_of(const actors::RunSpec::Mesh& mesh) {
  return mesh.etp > 0 ? fmt::format("{}/{}", mesh.tp, mesh.etp) : std::to_string(mesh.tp);
}
/// "8", and "8/2" where so many share experts out.
std::string replicas_of(const actors::RunSpec::Mesh& mesh) {
  return mesh.ep > 1 ? fmt::format("{}/{}", mesh.dp, mesh.ep) : std::to_string(mesh.dp);
}

std::string row(const auto&... columns) {
  return fmt::format(
      "{:>4} {:>3} {:>4} {:>3} {:<12} {:>6} {:>5} {:<9} {:<18} {:<5} {:>9} {:>5} {:>6} {:>9}\n",
      columns...);
}

}  // namespace

json to_json(const SearchResult& result) {
  json layouts = json::array(), excluded = json::array();
  for (const FoundLayout& found : result.layouts) layouts.push_back(layout_json(found));
  for (const auto& [reason, exclusion] : result.exclusions) {
    excluded.push_back({{"reason", reason}, {"count", exclusion.count}});
    if (exclusion.least_missing_bytes > 0)
      excluded.back()["least_missing_bytes"] = exclusion.least_missing_bytes;
  }
  return {{"considered", result.considered}, {"layouts", layouts}, {"excluded", excluded}};
}

std::string to_table(const SearchResult& result) {
  std::string out = row("tp", "pp", "dp", "seq", "schedule", "chunks", "micro", "recompute",
                        "sharding", "split", "step", "mfu", "bubble", "memory");
  for (const auto& [layout, prediction] : result.layouts)
    out +=
        row(shards_of(layout.mesh), layout.mesh.pp, replicas_of(layout.mesh),
            layout.mesh.sequence_parallel ? "yes" : "no", layout.kind, layout.chunks, layout.micro,
            recompute_of(layout), sharding_of(layout), layout.split.empty() ? "even" : layout.split,
            span_text(prediction.step.step_s), fmt::format("{:.3f}", prediction.step.mfu),
            fmt::format("{:.1f} %", 100 * prediction.step.bubble_share),
            bytes_text(prediction.memory_bytes));
  out += fmt::format("{} layouts were considered. Excluded:\n", grouped(result.considered));
  for (const auto& [reason, exclusion] : result.exclusions) {
    out += fmt::format("{:>10}  {}", grouped(exclusion.count), reason);
    if (exclusion.least_missing_bytes > 0)
      out += fmt::format(" (at least {} missing)", bytes_text(exclusion.least_missing_bytes));
    out += "\n";
  }
  return out;
}

}  // namespace troupe::launch
