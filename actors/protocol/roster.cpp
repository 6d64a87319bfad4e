#include "actors/protocol/roster.h"

#include <algorithm>
#include <utility>

#include "tensor/values/random.h"

namespace troupe::actors {
namespace {

/// SplitMix64: distinct values for distinct x.
std::uint64_t mix(std::uint64_t x) {
  return tensor::mix64(x + 0x9e3779b97f4a7c15u);
}

}  // namespace

std::uint64_t Roster::run() const {
  return mix(~seed_);
}

const Member& Roster::spawn(std::uint32_t attempt, const std::string& host) {
  const int id = free_ids_.empty() ? next_id_++ : free_ids_.extract(free_ids_.begin()).value();
  const std::uint64_t incarnation = mix(seed_ + num_spawned_++);
  Worker& worker = workers_[incarnation];
  worker.member = {.id = id, .incarnation = incarnation, .host = host};
  worker.host = host;
  worker.attempt = attempt;
  return worker.member;
}

bool Roster::join(const Member& member) {
  const auto found = workers_.find(member.incarnation);
  if (found == workers_.end() || found->second.joined) return false;
  Worker& worker = found->second;
  const int id = worker.member.id;
  worker.member = member;
  worker.member.id = id;
  if (!worker.host.empty()) worker.member.host = worker.host;
  worker.joined = true;
  num_failed_spawns_ = 0;
  return true;
}

void Roster::adopt(const Member& member) {
  workers_[member.incarnation] = {.member = member, .host = member.host, .joined = true};
  next_id_ = std::max(next_id_, member.id + 1);
}

void Roster::moved(std::uint64_t incarnation, const std::string& address) {
  workers_.at(incarnation).member.address = address;
}

void Roster::leave(std::uint64_t incarnation) {
  workers_.at(incarnation).leaving = true;
}

void Roster::forget(std::uint64_t incarnation) {
  const auto found = workers_.find(incarnation);
  if (!found->second.joined) ++num_failed_spawns_;
  free_ids_.insert(found->second.member.id);
  workers_.erase(found);
}

std::vector<std::uint64_t> Roster::on_host(const std::string& host) const {
  std::vector<std::pair<int, std::uint64_t>> found;
  for (const auto& [incarnation, worker] : workers_)
    if (worker.host == host) found.emplace_back(worker.member.id, incarnation);
  std::ranges::sort(found);
  std::vector<std::uint64_t> incarnations;
  for (const auto& [id, incarnation] : found) incarnations.push_back(incarnation);
  return incarnations;
}

const Roster::Worker* Roster::find(std::uint64_t incarnation) const {
  const auto found = workers_.find(incarnation);
  return found == workers_.end() ? nullptr : &found->second;
}

bool Roster::has_joined(std::uint64_t incarnation) const {
  const Worker* worker = find(incarnation);
  return worker && worker->joined;
}

bool Roster::stays(std::uint64_t incarnation) const {
  const Worker* worker = find(incarnation);
  return worker && !worker->leaving;
}

bool Roster::expects(std::uint64_t incarnation) const {
  const Worker* worker = find(incarnation);
  return worker && !worker->joined;
}

bool Roster::expects_any() const {
  return std::ranges::any_of(workers_, [](const auto& worker) { return !worker.second.joined; });
}

}  // namespace troupe::actors
