#pragma once

#include <array>
#include <string>
#include <vector>

#include "actors/topology/run_spec.h"

namespace troupe::launch {

/// What the keys of a manifest set, each as the manifest says it. Most are the run's spec, in which
/// to_run_spec() puts right what follows from several keys. A value is meaningless until its key
/// has one (Manifest::has).
struct Settings : actors::RunSpec {
  std::vector<std::string> derived;  ///< run.derived
  std::vector<std::string> changed;  ///< run.changed

  std::string model_from;    ///< model.from
  std::string model_config;  ///< model.config, whose fields are members of the model too
  /// [adapter]; resolving it gives the model its own.
  stages::Adapter adapter;
  std::string adapter_from;  ///< adapter.from
  Data::Source text;         ///< data.files and data.tokens, in place of data.sources
  Eval::Set eval_text;       ///< eval.files and the keys for them, in place of eval.sets
  std::array<double, 2> betas{};

  /// A table [[stage]]: what a stage has other than [mesh] says; 0: as it says.
  struct Stage {
    std::int64_t dp = 0;
    std::int64_t tp = 0;
    std::int64_t layers = 0;  ///< 0 also once they stand in mesh.layout
    std::string device;       ///< the name of a choice of cluster.device; empty: as it says
    std::vector<std::string> hosts{};  ///< names or numbers of some of cluster.hosts; empty: any
    bool operator==(const Stage&) const = default;
  };
  std::vector<Stage> stages;  ///< one for each stage, or none
  bool auto_mesh = false;     ///< mesh.auto: a search replaces the layout before the run begins

  std::vector<std::string> hosts;  ///< cluster.hosts, lists that become spec.cluster.hosts

  enum class ReduceEvery { automatic, step, microbatch };
  ReduceEvery reduce_every = ReduceEvery::automatic;

  /// How agents come to other hosts.
  enum class EngineKind { automatic, local, ssh, slurm, mpi, join };
  struct Engine {
    EngineKind kind = EngineKind::automatic;
    std::string ssh;                   ///< words of the command, before a host's name
    std::string program;               ///< path of this program on other hosts; empty: as here
    double wait_s = 0;                 ///< until all hosts have joined
    std::int64_t min_hosts = 0;        ///< with fewer than named the run begins; 0: never
    std::vector<std::string> forward;  ///< variables that agents are given
    bool mixed_cpus = false;
    bool trusted_network = false;  ///< ranks may have addresses that are not private
    double director_wait_s = 0;    ///< for which agents wait for another launcher; 0: not at all
  } engine;

  bool other_data = false;     ///< checkpoint.other_data
  bool gather = false;         ///< checkpoint.gather
  std::string on_save;         ///< checkpoint.on_save
  double on_save_timeout = 0;  ///< in seconds

  struct Monitor {
    double peak_tflops = 0;
    bool timestamps = false;
    bool tensorboard = false;
    std::string prometheus;
    std::string web;
    std::vector<std::string> hosts;
  } monitor;
};

}  // namespace troupe::launch
