#include "actors/protocol/hosts/host_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace troupe::actors {

HostTable::HostTable(std::span<const Host> listed) {
  for (const Host& host : listed) order_.push_back(host.name);
}

const HostTable::Entry* HostTable::find(const std::string& name) const {
  const auto found =
      std::ranges::find(entries_, name, [](const Entry& entry) { return entry.host.name; });
  return found == entries_.end() ? nullptr : &*found;
}

bool HostTable::is_up(const std::string& name) const {
  const Entry* entry = find(name);
  return entry && entry->is_up();
}

void HostTable::join(const Host& host) {
  const auto place = [this](const std::string& name) {
    return std::ranges::find(order_, name) - order_.begin();
  };
  const Entry next{.host = host, .state = HostState::spare};
  if (const Entry* known = find(host.name)) {
    entries_[static_cast<std::size_t>(known - entries_.data())] = next;
    return;
  }
  const auto after = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return place(entry.host.name) > place(host.name); });
  entries_.insert(after, next);
}

bool HostTable::set(const std::string& name, HostState state) {
  for (Entry& entry : entries_)
    if (entry.host.name == name) return std::exchange(entry.state, state) != state;
  return false;
}

std::vector<HostTable::Entry> HostTable::available(bool draining) const {
  std::vector<Entry> those;
  for (const Entry& entry : entries_)
    if (entry.is_up() || (draining && entry.state == HostState::draining)) those.push_back(entry);
  return those;
}

std::string HostTable::names(std::optional<HostState> state) const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_)
    if (!state || entry.state == *state) names.push_back(entry.host.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string HostTable::no_other_has_room() const {
  return "no host but those that are to be left (" + names(HostState::draining) +
         ") can hold the run";
}

}  // namespace troupe::actors
