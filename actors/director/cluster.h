#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/hosts/hosts.h"
#include "actors/monitors/hub.h"
#include "actors/topology/reports/reports.h"
#include "actors/topology/run_spec.h"
#include "actors/topology/scale.h"
#include "stages/storage/claim.h"

namespace troupe::actors {

struct ClusterOptions {
  std::string manifest;  ///< resolved manifest text, handed to every worker
  /// Command line of a worker process; it reads a WorkerBootstrap from standard input and calls
  /// run_worker.
  std::vector<std::string> worker_command;
  std::int64_t memory_bytes = 0;      ///< memory that all ranks together may take
  stages::Claim claim = {};           ///< to the run directory; nothing is saved once it has fallen
  std::shared_ptr<Hosts> hosts = {};  ///< other hosts that take part; null: none
  /// When this machine is taken away, on the monotonic clock; 0: not known. With other hosts it is
  /// HostsSpec::ends_s that counts.
  double ends_s = 0;
  std::uint64_t term = 1;  ///< of this launcher, with other hosts
  /// The lost launcher from which the run is taken over, whose workers wait on those hosts.
  struct Predecessor {
    std::string fate;            ///< RunStart::left_by
    std::int64_t reported = 0;   ///< RunStart::reported
    std::int64_t evaluated = 0;  ///< RunStart::evaluated
  };
  std::optional<Predecessor> predecessor = {};
};

/// A run: the director and its actors, in the launching process. Spawns one worker process per
/// rank, trains and ends.
class Cluster {
 public:
  /// `observer` outlives the cluster. Throws Error{unavailable} if the control port is taken.
  static std::unique_ptr<Cluster> create(const RunSpec& spec, const ClusterOptions& options,
                                         RunObserver& observer);
  virtual ~Cluster() = default;
  /// Blocks until the run has ended and every worker is gone.
  virtual Outcome run() = 0;
  /// Makes a checkpoint of the step in progress once it is committed. `answer` is called once, from
  /// a thread of the cluster: when the checkpoint is complete, or with the reason why there is
  /// none. May be called from any thread.
  virtual void save(std::function<void(const SaveAnswer&)> answer) = 0;
  /// Ends the run after the step in progress, with a checkpoint and exit code 0. Only the first
  /// order counts. May be called from any thread.
  virtual void stop(const std::string& reason) = 0;
  /// Ends the run at once, with exit code 75. May be called from any thread.
  virtual void stop_now(const std::string& reason) = 0;
  /// Changes the cluster at a step boundary. `answer` is called once, from a thread of the cluster:
  /// when the first step of the new shape is committed, or with the reason why it is not changed.
  /// May be called from any thread.
  virtual void scale(const ScaleRequest& request,
                     std::function<void(const ScaleAnswer&)> answer) = 0;
  virtual RunStatus status() const = 0;
  /// The hub on which the run's events are published; closed at the end of run(). Lives as long as
  /// the cluster.
  virtual Hub& hub() = 0;
};

}  // namespace troupe::actors
