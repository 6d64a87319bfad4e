#include "actors/topology/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>

#include "actors/topology/configuration.h"
#include "actors/topology/stage_placement.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

using schedules::counted;

/// How many blocks of `size` consecutive ranks each host takes; none if there is no room for all.
std::optional<std::vector<int>> taken_in_turn(std::span<const Host> hosts, int blocks, int size) {
  std::vector<int> taken(hosts.size());
  int left = blocks;
  for (bool has_room = true; left > 0 && has_room;) {
    has_room = false;
    for (std::size_t i = 0; i < hosts.size() && left > 0; ++i) {
      if (taken[i] == hosts[i].slots / size) continue;
      ++taken[i];
      --left;
      has_room = true;
    }
  }
  if (left > 0) return std::nullopt;
  return taken;
}

/// The host of each block, one host after the other.
std::vector<int> in_order(const std::vector<int>& taken) {
  std::vector<int> host_of_block;
  for (std::size_t i = 0; i < taken.size(); ++i)
    host_of_block.insert(host_of_block.end(), static_cast<std::size_t>(taken[i]),
                         static_cast<int>(i));
  return host_of_block;
}

/// The host of each block so that two that follow each other, the first after the last, are on two
/// hosts, if none has more than half of them: the fullest host first, in every second place.
std::vector<int> apart(const std::vector<int>& taken) {
  std::vector<int> hosts = in_order(taken);
  std::ranges::stable_sort(hosts, std::greater{},
                           [&](int host) { return taken[static_cast<std::size_t>(host)]; });
  std::vector<int> host_of_block(hosts.size());
  const std::size_t even = (hosts.size() + 1) / 2;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    host_of_block[i < even ? 2 * i : 2 * (i - even) + 1] = hosts[i];
  return host_of_block;
}

std::vector<int> ranks_of(const std::vector<int>& host_of_block, int size) {
  std::vector<int> host_of_rank;
  for (const int host : host_of_block)
    host_of_rank.insert(host_of_rank.end(), static_cast<std::size_t>(size), host);
  return host_of_rank;
}

/// "a 2, b 1"; of many hosts the first ones.
std::string slots_text(std::span<const Host> hosts) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (const Host& host : hosts.first(std::min(hosts.size(), kMost)))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", host.name, host.slots);
  return hosts.size() > kMost ? fmt::format("{} and {} more", text, hosts.size() - kMost) : text;
}

/// Refuses a stage whose own hosts have not as many slots as it has ranks.
void refuse_stages(const RunSpec::Mesh& mesh, std::span<const Host> hosts, const HostRules& rules) {
  for (int stage = 0; stage < mesh.pp && rules.names_hosts(mesh); ++stage) {
    if (rules.stage_hosts[static_cast<std::size_t>(stage)].empty()) continue;
    std::vector<Host> own;
    std::int64_t slots = 0;
    for (const Host& host : hosts)
      if (rules.allows(mesh, stage, host.name)) slots += own.emplace_back(host).slots;
    const auto [dp, tp] = mesh.width(stage);
    if (slots < std::int64_t{dp} * tp)
      throw Error(ErrorKind::unavailable,
                  fmt::format("stage {} has {} (dp {} x tp {}), but of its own hosts ([[stage]] "
                              "hosts) the run has {}{}; give it more hosts or slots, or make it "
                              "narrower",
                              stage, counted(dp * tp, "rank"), dp, tp, counted(slots, "slot"),
                              own.empty() ? "" : ": " + slots_text(own)));
  }
}

[[noreturn]] void refuse_mesh(const RunSpec::Mesh& mesh, std::span<const Host> hosts,
                              const HostRules& rules) {
  refuse_stages(mesh, hosts, rules);
  const auto sum = [&](auto&& number) {
    return std::transform_reduce(hosts.begin(), hosts.end(), std::int64_t{0}, std::plus<>{},
                                 number);
  };
  const std::int64_t slots = sum([](const Host& host) { return std::int64_t{host.slots}; });
  const std::string of_hosts = fmt::format("{} of {}: {}", counted(slots, "slot"),
                                           counted(std::ssize(hosts), "host"), slots_text(hosts));
  if (slots < mesh.num_ranks())
    throw Error(
        ErrorKind::unavailable,
        fmt::format("{} ({}) do not fit into the {}; name more hosts or slots, or make the mesh "
                    "smaller",
                    counted(mesh.num_ranks(), "rank"), to_string(mesh), of_hosts));
  const std::int64_t room =
      sum([&](const Host& host) { return std::int64_t{host.slots / mesh.tp}; });
  if (rules.names_hosts(mesh))
    throw Error(ErrorKind::unavailable,
                fmt::format("{} ({}) have no room together on the {}, as some stages have hosts of "
                            "their own ([[stage]] hosts); give these more hosts or slots",
                            counted(mesh.num_ranks(), "rank"), to_string(mesh), of_hosts));
  throw Error(
      ErrorKind::unavailable,
      fmt::format("tp = {}: the shards of a stage lie on one host, and the {} have room for "
                  "{} of {} that are whole; give each host a multiple of {} slots, or set "
                  "mesh.tp_across_hosts = true",
                  mesh.tp, of_hosts, room, counted(mesh.dp * mesh.pp, "stage"), mesh.tp));
}

}  // namespace

HostRules host_rules(const RunSpec& spec) {
  return {.tp_across_hosts = spec.cluster.tp_across_hosts,
          .instances = spec.data_parallel.instances,
          .stage_hosts = spec.cluster.stage_hosts};
}

bool HostRules::allows(const RunSpec::Mesh& mesh, int stage, const std::string& host) const {
  if (!names_hosts(mesh)) return true;
  const auto& own = stage_hosts[static_cast<std::size_t>(stage)];
  return own.empty() || std::ranges::find(own, host) != own.end();
}

std::vector<int> place_ranks(const RunSpec::Mesh& mesh, std::span<const Host> hosts,
                             const HostRules& rules) {
  if (hosts.empty()) return std::vector<int>(static_cast<std::size_t>(mesh.num_ranks()));
  if (!mesh.is_even() || rules.names_hosts(mesh)) {
    auto placed = place_stages(mesh, hosts, rules, Together::shards);
    if (!placed && rules.tp_across_hosts) placed = place_stages(mesh, hosts, rules, Together::none);
    if (!placed) refuse_mesh(mesh, hosts, rules);
    return *std::move(placed);
  }
  const int of_replica = mesh.ranks_of_replica();
  const auto stages = taken_in_turn(hosts, mesh.dp * mesh.pp, mesh.tp);
  for (const int together : {mesh.ep, 1}) {  // replicas
    const int size = together * of_replica;
    const auto replicas = taken_in_turn(hosts, mesh.dp / together, size);
    if (stages && replicas &&
        std::ranges::max(*replicas) * size <= std::ranges::max(*stages) * mesh.tp)
      return ranks_of(rules.instances > 1 ? in_order(*replicas) : apart(*replicas), size);
  }
  if (stages) return ranks_of(in_order(*stages), mesh.tp);
  const auto shards = taken_in_turn(hosts, mesh.num_ranks(), 1);
  if (!shards || !rules.tp_across_hosts) refuse_mesh(mesh, hosts, rules);
  return in_order(*shards);
}

std::span<const Host> hosts_with_ranks(const RunSpec& spec) {
  const std::span<const Host> hosts = spec.cluster.hosts;
  const auto spares = static_cast<std::size_t>(spec.recovery.spare_hosts);
  if (hosts.empty()) return hosts;
  if (spares < hosts.size()) return hosts.first(hosts.size() - spares);
  throw Error(ErrorKind::unavailable,
              fmt::format("recovery.spare_hosts = {} leaves none of {} for ranks: {}", spares,
                          counted(std::ssize(hosts), "host"), slots_text(hosts)));
}

std::vector<int> place_ranks(const RunSpec& spec) {
  if (spec.cluster.hosts.empty() && !spec.cluster.stage_hosts.empty())
    throw Error(ErrorKind::manifest,
                "stages have hosts of their own ([[stage]] hosts), but cluster.hosts names none; "
                "name the run's hosts there, or leave out those of the stages");
  return place_ranks(spec.mesh, hosts_with_ranks(spec), host_rules(spec));
}

}  // namespace troupe::actors
