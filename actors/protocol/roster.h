#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/topology/configuration.h"

namespace troupe::actors {

/// The worker processes of a run that are alive, or are being started. An incarnation is never used
/// twice; the id of a process that has ended goes to the next one that is started, unless its host
/// was lost.
class Roster {
 public:
  struct Worker {
    Member member;
    std::string host;  ///< on which it was started; empty: this machine, of a run without hosts
    bool joined = false;
    bool leaving = false;  ///< it was ordered to end, and takes no rank
    std::uint32_t attempt =
        0;  ///< number of the configuration that was gathered when it was started
  };

  /// Incarnations are derived from the seed.
  explicit Roster(std::uint64_t seed) : seed_(seed) {}

  /// A random number that identifies the run, the same for all its configurations.
  std::uint64_t run() const;

  /// Adds a worker that is to be started on a host, and has not joined.
  const Member& spawn(std::uint32_t attempt = 0, const std::string& host = "");
  /// Notes what a worker reports of itself when it joins; its id and its host stay, if it was given
  /// one. False if no such worker is expected.
  bool join(const Member& member);
  /// Adds a worker that an earlier director has started on its host, and that has joined that.
  void adopt(const Member& member);
  /// Leaves out so many ids, which such workers may have that nobody knows.
  void skip_ids(int count) { next_id_ += count; }
  /// Notes the new address of a worker's data plane.
  void moved(std::uint64_t incarnation, const std::string& address);
  void leave(std::uint64_t incarnation);
  /// Removes a worker whose process has ended.
  void forget(std::uint64_t incarnation);
  /// Removes a worker whose host is lost. It may still run and send, so no other worker gets its
  /// id.
  void abandon(std::uint64_t incarnation) { workers_.erase(incarnation); }

  /// The workers on a host, in the order of their ids.
  std::vector<std::uint64_t> on_host(const std::string& host) const;

  bool empty() const { return workers_.empty(); }
  bool contains(std::uint64_t incarnation) const { return workers_.contains(incarnation); }
  /// A worker; null if there is none with this incarnation.
  const Worker* find(std::uint64_t incarnation) const;
  bool has_joined(std::uint64_t incarnation) const;
  /// Whether the worker is in the roster, and was not ordered to end.
  bool stays(std::uint64_t incarnation) const;
  /// Whether the worker was spawned, and has not joined or ended yet.
  bool expects(std::uint64_t incarnation) const;
  /// Whether any worker was spawned and has not joined yet.
  bool expects_any() const;
  /// The number of workers that ended before they joined, since the last one that joined.
  int num_failed_spawns() const { return num_failed_spawns_; }

  /// Pairs of incarnation and worker, in the order of incarnations.
  auto begin() const { return workers_.begin(); }
  auto end() const { return workers_.end(); }

 private:
  std::uint64_t seed_;
  std::uint64_t num_spawned_ = 0;
  int num_failed_spawns_ = 0;
  std::map<std::uint64_t, Worker> workers_;  // by incarnation
  std::set<int> free_ids_;                   // ids below next_id_ that are free
  int next_id_ = 0;
};

}  // namespace troupe::actors
