#include "actors/director/cluster.h"

#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <utility>

#include "actors/director/checkpoint_actor.h"
#include "actors/director/director.h"
#include "actors/director/report_thread.h"
#include "actors/messages/secret.h"
#include "actors/messages/start_deadline.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/hugging_face/side_files.h"

namespace troupe::actors {
namespace {

class LocalCluster : public Cluster {
 public:
  LocalCluster(const RunSpec& spec, const ClusterOptions& options, RunObserver& observer)
      : reports_(observer, [this](const std::string& what) { on_report_failed(what); }),
        hosts_(options.hosts),
        first_hosts_(spec.cluster.hosts),
        processes_(options.worker_command,
                   [this](const WorkerExited& exit) { caf::anon_send(director_, Event{exit}); }),
        own_system_(hosts_ ? nullptr : std::make_unique<caf::actor_system>(config_)),
        system_(hosts_ ? hosts_->system() : *own_system_),
        workers_(hosts_ ? hosts_->workers(processes_) : nullptr) {
    board_.write([&spec](RunStatus& status) {
      status.evaluations = spec.eval.batches(spec.batch.global);
      // For each parameter a weight, and for each that trains two moments, all in float32. The base
      // of an adapter is not saved.
      const std::int64_t trained = num_trained_parameters(spec.model);
      const std::int64_t saved =
          spec.model.adapter ? trained : stages::num_parameters(spec.model);
      status.checkpoint_bytes = sizeof(float) * static_cast<std::uint64_t>(saved + 2 * trained);
    });
    DirectorContext context{.spec = spec,
                            .manifest = options.manifest,
                            .token = random_token(),
                            .memory_bytes = options.memory_bytes,
                            .claim = options.claim,
                            .ends_s = hosts_ ? 0 : options.ends_s,
                            .observer = reports_,
                            .hub = hub_,
                            .processes = workers_ ? *workers_ : processes_,
                            .board = board_,
                            .on_end =
                                [this](const Outcome& outcome) {
                                  outcome_ = outcome;
                                  processes_.quit();
                                },
                            .hosts = hosts_.get()};
    stages::ModelSource source;
    if (!spec.checkpoint.resume.empty()) {
      const auto& adapter = spec.model.adapter;
      const auto start = stages::CheckpointReader::open(spec.checkpoint.resume,
                                                        adapter ? adapter->base : "");
      source = start->source();
      if (!spec.checkpoint.weights_only) {
        const stages::CheckpointInfo& info = start->info();
        context.first_step = info.step;
        context.sample_origin = info.next_sample - info.step * spec.batch.global;
      }
    }
    source.files = stages::side_files(source, spec.data.tokenizer);
    const auto have = stages::own_checkpoints(spec.dir + "/checkpoints");
    if (std::find(have.begin(), have.end(), context.first_step) != have.end())
      context.saved_step = context.first_step;
    // Now, so that no checkpoint depends on a thread that the machine may lack later.
    checkpoints_ = system_.spawn<CheckpointActor, caf::detached>(
        checkpoint_context(spec, options.claim, std::move(source), hosts_));
    context.checkpoints = checkpoints_;
    if (options.predecessor) take_over(*options.predecessor, context);
    service_ = {.term = options.term, .token = context.token};
    director_ = system_.spawn<Director>(std::move(context));
  }

  ~LocalCluster() override {
    // The actor system waits for these actors, so they must end even if the run has not. One that
    // hosts share outlives this object, which these actors must not.
    caf::scoped_actor self{system_};
    for (const auto& actor : {director_, checkpoints_})
      self->send_exit(actor, caf::exit_reason::user_shutdown);
    if (hosts_) self->wait_for(director_, checkpoints_);
  }

  Outcome run() override {
    // The caller uses what the observer has received once this returns, so all reports must be in.
    struct LastReport {
      ~LastReport() { reports.finish(); }
      ReportThread& reports;
    } last{reports_};
    // Only now, when all who watch the run have subscribed to its events.
    if (hosts_) hosts_->serve(director_, first_hosts_, service_);
    caf::anon_send(director_, Event{Started{}});
    processes_.run();
    hub_.close();
    return outcome_;
  }

  void stop(const std::string& reason) override {
    caf::anon_send(director_, Event{StopOrdered{.reason = reason}});
  }
  void stop_now(const std::string& reason) override {
    caf::anon_send(director_, Event{StopNowOrdered{.reason = reason}});
  }
  void scale(const ScaleRequest& request, std::function<void(const ScaleAnswer&)> answer) override {
    caf::anon_send(director_,
                   ScaleOrder{.request = request, .answer = after_reports(std::move(answer))});
  }
  void save(std::function<void(const SaveAnswer&)> answer) override {
    caf::anon_send(director_, SaveOrder{.answer = after_reports(std::move(answer))});
  }
  RunStatus status() const override {
    RunStatus status = board_.read();
    if (status.hosts.empty()) return status;
    const StepReport newest{.replicas = board_.measured()};
    count_ranks(status.hosts, status.ranks, newest.stages());
    if (hosts_) hosts_->describe(status.hosts);
    return status;
  }
  Hub& hub() override { return hub_; }

 private:
  /// What the director needs to know of the launcher before it, and of those who wait.
  void take_over(const ClusterOptions::Predecessor& predecessor, DirectorContext& context) {
    for (const HostRegistry::Entry& entry : hosts_->registry().entries())
      for (const std::uint64_t worker : entry.inherited)
        context.left.push_back({.incarnation = worker, .host = entry.host.name});
    context.predecessor = predecessor;
  }
  /// The answer follows all reports before it, so that a caller that has it finds the run's files
  /// as it says.
  template <typename Answer>
  std::function<void(const Answer&)> after_reports(std::function<void(const Answer&)> answer) {
    return [this, answer = std::move(answer)](const Answer& given) {
      reports_.then([answer, given] { answer(given); });
    };
  }
  void on_report_failed(const std::string& what) {
    caf::anon_send(director_, Event{DirectorFailed{.message = "a report: " + what}});
  }

  StatusBoard board_;
  Hub hub_;
  Outcome outcome_;  // written before quit(), read after processes_.run()
  ReportThread reports_;
  const std::shared_ptr<Hosts> hosts_;
  const std::vector<Host> first_hosts_;  // that have joined before the run begins
  Service service_;
  LocalProcesses processes_;
  ControlPlaneConfig config_{2};
  std::unique_ptr<caf::actor_system> own_system_;  // if no other host's connection brings one
  caf::actor_system& system_;
  std::unique_ptr<Processes> workers_;  // of all hosts; null: processes_ are all
  caf::actor director_, checkpoints_;
};

}  // namespace

std::unique_ptr<Cluster> Cluster::create(const RunSpec& spec, const ClusterOptions& options,
                                         RunObserver& observer) {
  const StartDeadline deadline;
  return std::make_unique<LocalCluster>(spec, options, observer);
}

}  // namespace troupe::actors
