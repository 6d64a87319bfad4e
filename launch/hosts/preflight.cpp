#include "launch/hosts/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "launch/host/quantities.h"

namespace troupe::launch {
namespace {

using One = HostsFound::One;

/// A host whose products take this share of the median's speed is named.
constexpr double kSlow = 0.8;
/// Clocks that differ by more, in seconds, are named.
constexpr double kClocksDiffer = 1;
/// What UCX makes in /dev/shm for a rank, if it is told to use it.
constexpr std::int64_t kShmOfRank = 30 << 20;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Ways that are broken, by the two hosts whose way it is, whichever of them found out.
using BrokenWays = std::map<std::pair<std::string, std::string>, std::vector<std::string>>;

BrokenWays broken_ways(const HostsFound& found) {
  BrokenWays broken;
  for (const One& one : found.hosts)
    for (const actors::LinkProbe& link : one.survey.links) {
      if (link.fault.empty()) continue;
      std::pair two(one.host.name, link.host);
      if (two.second < two.first) std::swap(two.first, two.second);
      std::string how = fmt::format("from {} to {}: {}", one.host.name, link.to, link.fault);
      if (link.connected) how += " (are large packets dropped, as where MTUs differ?)";
      broken[two].push_back(std::move(how));
    }
  return broken;
}

void judge_ways(const HostsFound& found, Preflight& judged) {
  const std::string remedy =
      found.ports.empty()
          ? "let TCP pass between them; for a firewall name a range of ports that it lets pass in "
            "cluster.ports, or another network in cluster.interface"
          : fmt::format(
                "let TCP pass between them at cluster.ports = \"{}\", or name another "
                "network in cluster.interface",
                found.ports);
  for (const auto& [two, how] : broken_ways(found)) {
    std::string all;
    for (const std::string& one : how) all += (all.empty() ? "" : "; ") + one;
    judged.refusals.push_back(fmt::format("{} and {} do not reach each other: {}. Remedy: {}",
                                          two.first, two.second, all, remedy));
  }
}

void judge_ports(const One& one, const std::string& ports, Preflight& judged) {
  const int free = one.survey.facts.free_ports;
  if (free < 0 || one.ranks == 0 || free >= 2 * one.ranks) return;
  const std::string what =
      fmt::format("host {}: {} of the TCP ports {} at {} are free, and {} rank{} there take{}",
                  one.host.name, free, ports, one.survey.address, one.ranks,
                  one.ranks == 1 ? "" : "s", one.ranks == 1 ? "s" : "");
  if (free < one.ranks)
    judged.refusals.push_back(what + " one each. Remedy: more ports in cluster.ports");
  else
    judged.warnings.push_back(what + " two each while they recover; give cluster.ports more");
}

void judge_shm(const One& one, Preflight& judged) {
  const std::int64_t needed = kShmOfRank * one.ranks;
  if (!one.survey.facts.needs_shm || one.survey.facts.shm_bytes >= needed) return;
  judged.refusals.push_back(fmt::format(
      "host {}: /dev/shm has {}, and UCX_TLS there has messages go through it, which takes {} for "
      "{} rank{}. Remedy: a larger /dev/shm (mount -o remount,size=..., docker --shm-size), or no "
      "UCX_TLS",
      one.host.name, bytes_text(one.survey.facts.shm_bytes), bytes_text(needed), one.ranks,
      one.ranks == 1 ? "" : "s"));
}

void judge_speeds(const HostsFound& found, Preflight& judged) {
  std::vector<double> speeds;
  for (const One& one : found.hosts)
    if (one.survey.facts.flops > 0) speeds.push_back(one.survey.facts.flops);
  if (speeds.size() < 2) return;
  const double middle = median(speeds);
  for (const One& one : found.hosts)
    if (const double own = one.survey.facts.flops; own > 0 && own < kSlow * middle)
      judged.warnings.push_back(fmt::format(
          "host {} multiplies matrices at {:.1f} GFLOP/s a core, {:.2f} of the hosts' median: all "
          "will wait for it; do others use its processor, or is it throttled?",
          one.host.name, own / 1e9, own / middle));
}

void judge_clocks(const HostsFound& found, Preflight& judged) {
  for (const auto& [host, link] : found.from_launcher)
    if (std::abs(link.clock_ahead_s) - link.clock_error_s > kClocksDiffer)
      judged.warnings.push_back(fmt::format(
          "host {}: its clock is {} {} the launcher's, and so are the times in its logs", host,
          span_text(std::abs(link.clock_ahead_s)), link.clock_ahead_s > 0 ? "ahead of" : "behind"));
}

}  // namespace

Preflight judge(const HostsFound& found) {
  Preflight judged;
  for (const One& one : found.hosts) {
    if (!one.survey.fault.empty()) {
      judged.refusals.push_back(fmt::format("host {}: {}", one.host.name, one.survey.fault));
      continue;
    }
    judge_ports(one, found.ports, judged);
    judge_shm(one, judged);
  }
  judge_ways(found, judged);
  judge_speeds(found, judged);
  judge_clocks(found, judged);
  return judged;
}

}  // namespace troupe::launch
