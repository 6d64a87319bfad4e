#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/join_messages.h"
#include "actors/topology/reports/clock_ahead.h"
#include "actors/topology/run_spec.h"

namespace troupe::actors {

/// The hosts that have joined a run beside the launcher's, and what is known of their workers.
/// Written by the HostsActor, read by any thread.
class HostRegistry {
 public:
  struct Entry {
    Host host;
    std::uint64_t incarnation = 0;
    std::string address;
    double ends_s = 0;  ///< when it is taken away, on the monotonic clock; 0: not known
    bool lost = false;
    double heard_s = 0;                    ///< its last sign of life, on the monotonic clock
    std::optional<ClockAhead> clock = {};  ///< of the launcher's host; none: not known yet
    int door = 0;                          ///< HostHello::door
    /// Workers of an earlier launcher that wait there for a director.
    std::vector<std::uint64_t> inherited = {};
  };

  void join(const Entry& entry);
  /// A host has given a sign of life now, with what it knows of its clock (AgentBeat::clock).
  void hear(const std::string& name, const ClockAhead& clock);
  /// How far the clock of a worker's host is ahead of that of this host; none if it is not known.
  std::optional<ClockAhead> clock_of(std::uint64_t worker) const;
  /// Whether the host of a worker has within the last two beats; true for a worker of this host.
  bool hears_host_of(std::uint64_t worker) const;
  void lose(const std::string& name);
  /// A worker was started on a host, has used so much processor time, or is gone.
  void started(std::uint64_t worker, const std::string& host);
  void used(std::uint64_t worker, double cpu_seconds);
  void ended(std::uint64_t worker);

  std::vector<Entry> entries() const;
  /// Workers on a host that have not ended.
  std::vector<std::uint64_t> workers_on(const std::string& host) const;
  double cpu_seconds(std::uint64_t worker) const;
  /// The host of a worker; empty if it is on no other host.
  std::string host_of(std::uint64_t worker) const;

  /// What a host sees of the files that it was asked for last, until the next question.
  void see(const std::string& host, const FilesSeen& seen);
  std::map<std::string, FilesSeen> seen() const;
  void forget_seen();
  /// A host has been brought the files that it does not see, or why not (FilesBrought::error).
  void bring(const std::string& host, const std::string& error);
  std::map<std::string, std::string> brought() const;

  /// Notes why a host that is waited for will not come.
  void refuse(const std::string& name, const std::string& cause);
  std::map<std::string, std::string> refusals() const;
  /// Forgets them: whoever is refused may be waited for anew.
  void forget_refusals();
  /// Blocks until `done` holds, which is asked when a host joins or is refused and at least every
  /// 0.1 s.
  void wait(const std::function<bool()>& done) const;

 private:
  struct Worker {
    std::string host;
    double cpu_seconds = 0;
  };
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, Entry> hosts_;
  std::map<std::string, std::string> refusals_;
  std::map<std::string, FilesSeen> seen_;
  std::map<std::string, std::string> brought_;
  std::map<std::uint64_t, Worker> workers_;
};

}  // namespace troupe::actors
