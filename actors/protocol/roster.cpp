#include "actors/protocol/roster.h"

#include <algorithm>

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

const Member& Roster::spawn(std::uint32_t attempt) {
  const int id = free_ids_.empty() ? next_id_++ : free_ids_.extract(free_ids_.begin()).value();
  const std::uint64_t incarnation = mix(seed_ + num_spawned_++);
  Worker& worker = workers_[incarnation];
  worker.member = {.id = id, .incarnation = incarnation};
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
  worker.joined = true;
  num_failed_spawns_ = 0;
  return true;
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
