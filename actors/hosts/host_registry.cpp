#include "actors/hosts/host_registry.h"

#include <chrono>

#include "actors/messages/control_plane.h"

namespace troupe::actors {

void HostRegistry::join(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  hosts_[entry.host.name] = entry;
  refusals_.erase(entry.host.name);
  changed_.notify_all();
}

void HostRegistry::hear(const std::string& name, const ClockAhead& clock) {
  const std::lock_guard lock(mutex_);
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) return;
  found->second.heard_s = now_s();
  if (clock.is_possible()) found->second.clock = clock;
}

std::optional<ClockAhead> HostRegistry::clock_of(std::uint64_t worker) const {
  const std::lock_guard lock(mutex_);
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return ClockAhead{};  // of this host
  const auto host = hosts_.find(found->second.host);
  return host == hosts_.end() ? std::nullopt : host->second.clock;
}

bool HostRegistry::hears_host_of(std::uint64_t worker) const {
  constexpr double kTwoBeats =
      2.5 * std::chrono::duration<double>(kHeartbeatInterval).count();  // and what a network takes
  const std::lock_guard lock(mutex_);
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return true;
  const auto host = hosts_.find(found->second.host);
  return host == hosts_.end() || now_s() - host->second.heard_s < kTwoBeats;
}

void HostRegistry::lose(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = hosts_.find(name); found != hosts_.end()) found->second.lost = true;
  std::erase_if(workers_, [&](const auto& worker) { return worker.second.host == name; });
  changed_.notify_all();
}

void HostRegistry::started(std::uint64_t worker, const std::string& host) {
  const std::lock_guard lock(mutex_);
  workers_[worker] = {.host = host};
}

void HostRegistry::used(std::uint64_t worker, double cpu_seconds) {
  const std::lock_guard lock(mutex_);
  if (const auto found = workers_.find(worker); found != workers_.end())
    found->second.cpu_seconds = cpu_seconds;
}

void HostRegistry::ended(std::uint64_t worker) {
  const std::lock_guard lock(mutex_);
  workers_.erase(worker);
}

std::vector<HostRegistry::Entry> HostRegistry::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  for (const auto& [name, entry] : hosts_) entries.push_back(entry);
  return entries;
}

std::vector<std::uint64_t> HostRegistry::workers_on(const std::string& host) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> there;
  for (const auto& [incarnation, worker] : workers_)
    if (worker.host == host) there.push_back(incarnation);
  return there;
}

double HostRegistry::cpu_seconds(std::uint64_t worker) const {
  const std::lock_guard lock(mutex_);
  const auto found = workers_.find(worker);
  return found == workers_.end() ? 0 : found->second.cpu_seconds;
}

std::string HostRegistry::host_of(std::uint64_t worker) const {
  const std::lock_guard lock(mutex_);
  const auto found = workers_.find(worker);
  return found == workers_.end() ? "" : found->second.host;
}

void HostRegistry::see(const std::string& host, const FilesSeen& seen) {
  const std::lock_guard lock(mutex_);
  seen_[host] = seen;
  changed_.notify_all();
}

std::map<std::string, FilesSeen> HostRegistry::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void HostRegistry::forget_seen() {
  const std::lock_guard lock(mutex_);
  seen_.clear();
}

void HostRegistry::bring(const std::string& host, const std::string& error) {
  const std::lock_guard lock(mutex_);
  brought_[host] = error;
  changed_.notify_all();
}

std::map<std::string, std::string> HostRegistry::brought() const {
  const std::lock_guard lock(mutex_);
  return brought_;
}

void HostRegistry::refuse(const std::string& name, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  refusals_[name] = cause;
  changed_.notify_all();
}

std::map<std::string, std::string> HostRegistry::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

void HostRegistry::forget_refusals() {
  const std::lock_guard lock(mutex_);
  refusals_.clear();
}

void HostRegistry::wait(const std::function<bool()>& done) const {
  while (!done()) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100));
  }
}

}  // namespace troupe::actors
