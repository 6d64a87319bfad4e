#include "launch/control/tap_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "actors/topology/boundary.h"
#include "actors/topology/configuration.h"
#include "launch/control/request_fields.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// The most edges that a message lists, because a large cluster has thousands.
constexpr std::size_t kListed = 12;

/// One direction of an edge between two ranks.
struct Way {
  int from = 0, to = 0;
  bool backward = false;
  auto operator<=>(const Way&) const = default;
};
/// Ranges [first, end) of microbatches.
using Ranges = std::set<std::pair<int, int>>;
using Ways = std::map<Way, Ranges>;

const char* kind_of(bool backward) {
  return backward ? "gradients" : "activations";
}

std::string edge_text(int from, int to) {
  return fmt::format("{}:{}", from, to);
}

actors::RunSpec::Mesh mesh_of(const json& pipeline) {
  actors::RunSpec::Mesh mesh{
      .pp = pipeline.at("pp"), .dp = pipeline.at("dp"), .tp = pipeline.at("tp")};
  if (!pipeline.contains("dp_of_stage")) return mesh;
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(mesh.pp); ++stage)
    mesh.widths.push_back(
        {.dp = pipeline.at("dp_of_stage").at(stage), .tp = pipeline.at("tp_of_stage").at(stage)});
  return mesh;
}

/// All edges and directions on which tensors travel in a step, with their microbatches.
Ways ways_of(const json& pipeline) {
  const auto stages = pipeline.at("stage_of_chunk").get<std::vector<int>>();
  const actors::RunSpec::Mesh mesh = mesh_of(pipeline);
  const int copies = pipeline.at("copies");
  const int share = pipeline.at("microbatches").get<int>() / copies;
  const int chunks = static_cast<int>(stages.size()) / copies;
  Ways ways;
  for (int copy = 0; copy < copies; ++copy)
    for (int chunk = copy * chunks + 1; chunk < (copy + 1) * chunks; ++chunk)
      for (const auto& [from, to] :
           actors::ranks_that_meet(mesh, stages.at(static_cast<std::size_t>(chunk - 1)),
                                   stages.at(static_cast<std::size_t>(chunk)))) {
        if (from == to) continue;
        const std::pair range{copy * share, (copy + 1) * share};
        ways[{from, to, false}].insert(range);
        ways[{to, from, true}].insert(range);
      }
  return ways;
}

bool holds(const Ranges& ranges, int number) {
  return std::ranges::any_of(ranges, [number](const auto& range) {
    return range.first <= number && number < range.second;
  });
}

std::string ranges_text(const Ranges& ranges) {
  std::string text;
  for (const auto& [first, end] : ranges)
    text += fmt::format("{}{}-{}", text.empty() ? "" : ", ", first, end - 1);
  return text;
}

/// The edges of the requested direction as a list, those of the requested sender first.
std::string edges_text(const Ways& ways, const actors::TapRequest& request) {
  std::vector<std::string> edges;
  for (const bool of_sender : {true, false})
    for (const auto& [way, microbatches] : ways)
      if (way.backward == request.backward && (way.from == request.from) == of_sender)
        edges.push_back(edge_text(way.from, way.to));
  if (edges.size() <= kListed) return fmt::format("{}", fmt::join(edges, ", "));
  return fmt::format("{} and {} more", fmt::join(edges.begin(), edges.begin() + kListed, ", "),
                     edges.size() - kListed);
}

}  // namespace

actors::TapRequest parse_edge(const std::string& text, actors::TapRequest request) {
  const char* const end = text.data() + text.size();
  const auto from = std::from_chars(text.data(), end, request.from);
  const bool has_colon = from.ec == std::errc() && from.ptr != end && *from.ptr == ':';
  const auto to = has_colon ? std::from_chars(from.ptr + 1, end, request.to) : from;
  if (!has_colon || to.ec != std::errc() || to.ptr != end || request.from < 0 || request.to < 0)
    refuse("--edge " + text + " must be the ranks of a sender and its receiver, such as 0:1");
  return request;
}

actors::TapRequest parse_tap(const nlohmann::json& fields) {
  if (!fields.is_object()) refuse("tap must be an object with at least from and to, two ranks");
  json named = fields;
  named["request"] = "tap";
  refuse_other_fields(named, {"from", "to", "backward", "every", "microbatch", "only_not_finite",
                              "dump", "samples"});
  const auto from = count_field(fields, "from"), to = count_field(fields, "to");
  if (!from || !to) refuse("tap needs from and to, the ranks of a sender and its receiver");
  const actors::TapRequest request{
      .from = *from,
      .to = *to,
      .backward = flag_field(fields, "backward").value_or(false),
      .every = number_field(fields, "every").value_or(1),
      .microbatch = count_field(fields, "microbatch").value_or(-1),
      .only_not_finite = flag_field(fields, "only_not_finite").value_or(false),
      .dump = flag_field(fields, "dump").value_or(false),
      .samples = number_field(fields, "samples").value_or(0)};
  if (request.every < 1) refuse("every must be at least 1 step");
  if (request.samples < 0) refuse("samples must be at least 0");
  return request;
}

std::string describe(const actors::TapRequest& request) {
  std::string text =
      fmt::format("{} {} of edge {}",
                  request.samples > 0 ? std::to_string(request.samples) : std::string("all"),
                  kind_of(request.backward), edge_text(request.from, request.to));
  if (request.microbatch >= 0) text += fmt::format(", microbatch {}", request.microbatch);
  if (request.only_not_finite) text += ", with an element that is not finite";
  if (request.every > 1) text += fmt::format(", of steps that {} divides", request.every);
  return text;
}

std::string never_fits(const actors::TapRequest& request, const json& status) {
  const auto& pipeline = status.at("pipeline");
  if (pipeline.at("stage_of_chunk").empty()) return "";
  const Ways ways = ways_of(pipeline);
  const std::string edge = edge_text(request.from, request.to);
  const auto way = ways.find({request.from, request.to, request.backward});
  if (ways.empty()) return "a run of one stage sends nothing over edges";
  if (way == ways.end()) {
    const bool other = ways.contains({request.from, request.to, !request.backward});
    return fmt::format("no {} travel over edge {}{}; the edges of {} are {}",
                       kind_of(request.backward), edge,
                       other ? fmt::format(", only {}", kind_of(!request.backward)) : "",
                       kind_of(request.backward), edges_text(ways, request));
  }
  if (request.microbatch >= 0 && !holds(way->second, request.microbatch))
    return fmt::format("microbatch {} does not travel over edge {}; its {} are of microbatches {}",
                       request.microbatch, edge, kind_of(request.backward),
                       ranges_text(way->second));
  const auto step = status.at("step").get<std::int64_t>();
  const auto last = status.at("max_steps").get<std::int64_t>();
  if (step / request.every == last / request.every)
    return fmt::format("no step is left that {} divides: the run is at step {} of {}",
                       request.every, step, last);
  return "";
}

}  // namespace troupe::launch
