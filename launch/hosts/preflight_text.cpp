#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "launch/host/quantities.h"
#include "launch/hosts/preflight.h"

// What people and programs are told of the hosts of a run.

namespace troupe::launch {
namespace {

using nlohmann::json;
using One = HostsFound::One;

std::string speed_text(double bytes_per_s) {
  return fmt::format("{:.3g} GB/s", bytes_per_s / 1e9);
}

std::string clock_text(const actors::LinkProbe& link) {
  const double apart = std::abs(link.clock_ahead_s);
  if (apart <= link.clock_error_s) return "clock equal within " + span_text(link.clock_error_s);
  return fmt::format("clock {} {} (+-{})", span_text(apart),
                     link.clock_ahead_s > 0 ? "ahead" : "behind", span_text(link.clock_error_s));
}

std::string link_text(const actors::LinkProbe& link) {
  if (!link.connected) return ", not reached from here";
  std::string text = ", " + span_text(link.round_trip_s) + " away";
  if (link.bytes_per_s > 0) text += ", " + speed_text(link.bytes_per_s);
  return text + ", " + clock_text(link);
}

std::string line_of(const One& one) {
  const actors::Host& host = one.host;
  const actors::HostFacts& facts = one.survey.facts;
  std::string line =
      fmt::format("host      {}, {} {}, {} slot{}, {} cores, {}", host.name, facts.interface,
                  one.survey.address, host.slots, host.slots == 1 ? "" : "s", host.cores,
                  bytes_text(host.memory_bytes));
  if (!one.survey.fault.empty()) return line;
  return line + fmt::format(", /dev/shm {}, memlock {}, {:.1f} GFLOP/s a core",
                            bytes_text(facts.shm_bytes),
                            facts.locked_bytes < 0 ? "unlimited" : bytes_text(facts.locked_bytes),
                            facts.flops / 1e9);
}

/// What the slowest ways between hosts are.
std::string ways_line(const HostsFound& found) {
  double longest_s = 0, slowest = 0;
  std::string far, slow;
  int count = 0;
  for (const One& one : found.hosts)
    for (const actors::LinkProbe& link : one.survey.links) {
      if (!link.fault.empty()) continue;
      ++count;
      const std::string way = one.host.name + " to " + link.host;
      if (link.round_trip_s > longest_s) longest_s = link.round_trip_s, far = way;
      if (slow.empty() || link.bytes_per_s < slowest) slowest = link.bytes_per_s, slow = way;
    }
  if (count == 0) return "";
  return fmt::format(
      "ways      {} between hosts; the longest takes {} there and back ({}), the "
      "slowest {} ({})\n",
      count, span_text(longest_s), far, speed_text(slowest), slow);
}

json to_json(const std::string& from, const actors::LinkProbe& link) {
  return {{"from", from},
          {"to", link.host},
          {"address", link.to},
          {"fault", link.fault},
          {"round_trip_s", link.round_trip_s},
          {"bytes_per_s", link.bytes_per_s}};
}

json to_json(const One& one) {
  const actors::HostFacts& facts = one.survey.facts;
  return {{"host", one.host.name},
          {"interface", facts.interface},
          {"address", one.survey.address},
          {"slots", one.host.slots},
          {"ranks", one.ranks},
          {"cores", one.host.cores},
          {"memory_bytes", one.host.memory_bytes},
          {"shm_bytes", facts.shm_bytes},
          {"locked_bytes", facts.locked_bytes},
          {"free_ports", facts.free_ports},
          {"flops", facts.flops},
          {"fault", one.survey.fault}};
}

}  // namespace

std::string to_text(const HostsFound& found) {
  std::string text;
  for (const One& one : found.hosts) {
    const auto link = found.from_launcher.find(one.host.name);
    text +=
        line_of(one) + (link == found.from_launcher.end() ? "" : link_text(link->second)) + "\n";
  }
  text += ways_line(found);
  std::string equal;
  for (const auto& [name, value] : found.traits)
    equal += fmt::format("{}{} {}", equal.empty() ? "" : ", ", name, value);
  return text + "equal     " + equal + "\n";
}

json to_json(const HostsFound& found, const Preflight& judged) {
  json all{{"hosts", json::array()},
           {"links", json::array()},
           {"equal", found.traits},
           {"refusals", judged.refusals},
           {"warnings", judged.warnings}};
  for (const One& one : found.hosts) {
    json row = to_json(one);
    if (const auto link = found.from_launcher.find(one.host.name);
        link != found.from_launcher.end()) {
      row["clock_ahead_s"] = link->second.clock_ahead_s;
      row["clock_error_s"] = link->second.clock_error_s;
    }
    all["hosts"].push_back(std::move(row));
    for (const actors::LinkProbe& link : one.survey.links)
      all["links"].push_back(to_json(one.host.name, link));
  }
  return all;
}

}  // namespace troupe::launch
