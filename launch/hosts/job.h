#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/run_spec.h"

namespace troupe::launch {

/// A variable of the environment; none if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment own_environment();

/// What a batch system or a starter of parallel programs has told this process: which of the job's
/// hosts it is on, and whether it is the only process of the job or one of many that all run the
/// same command.
struct Job {
  enum class Kind { none, allocation, process };
  /// none: nobody says anything. allocation: the job has hosts, and this process is alone on one of
  /// them. process: each host has at least one process that runs this command.
  Kind kind = Kind::none;
  std::string name;                 ///< of the job, in words: "Slurm job 12"
  std::string key;                  ///< the same for all processes of the job, and for no other job
  std::vector<actors::Host> hosts;  ///< if they are known by name; slots as the job says
  int num_hosts = 0;                ///< 0: not known
  int num_processes = 0;            ///< of the job, if each is to stand for a rank; 0: not known
  int own_processes = 0;            ///< of these, on this host
  std::string own;                  ///< name of this host in the job; empty: as it calls itself
  /// "host:port" at which the first process may listen for the others, by MASTER_ADDR and
  /// MASTER_PORT; empty: nobody says, or torchrun listens there itself.
  std::string rendezvous = {};
  bool is_first = true;  ///< of all processes: the one that launches
  bool is_first_of_host = true;
};

/// The job that the environment tells of: Slurm's, Open MPI's or torchrun's variables. A host of
/// Slurm's has a slot for each processor that the job has there, and at least one for each task.
/// Throws Error{unavailable} for a variable that does not hold what it should.
Job job_of(const Environment& environment);

/// How many seconds after `now` (of the Unix epoch) the job's time on this host ends, by Slurm's
/// SLURM_JOB_END_TIME; 0: nobody says, or that time is over and so of no meaning. Throws
/// Error{unavailable} if the variable holds no number.
std::int64_t seconds_left(const Environment& environment, std::int64_t now);
/// When the time of this process's job ends, on the monotonic clock; 0: nobody says.
double own_time_limit();

}  // namespace troupe::launch
