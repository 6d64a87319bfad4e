#include "launch/monitors/prometheus.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/monitors/subscriber_thread.h"
#include "launch/control/event_json.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using namespace actors;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::Registry;

Family<Counter>& counters(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
Family<Gauge>& gauges(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
Family<Histogram>& histograms(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

/// Bucket bounds from a millisecond to an hour, three a decade.
Histogram::BucketBoundaries duration_buckets() {
  return {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,  1,
          2,     5,     10,    20,   50,   100,  200, 500, 1000, 3600};
}

/// Bucket bounds from a microsecond to ten seconds, one a decade.
Histogram::BucketBoundaries handler_buckets() {
  return {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10};
}

/// The series of ranks, stages and links. They are all removed when mesh or schedule change; a
/// series that still exists comes back with its next value.
template <typename T>
class PassingSeries {
 public:
  explicit PassingSeries(Family<T>& family) : family_(family) {}
  T& of(Labels labels, const Labels& more = {}) {
    labels.insert(more.begin(), more.end());
    T& series = family_.Add(labels);
    shown_.insert(&series);
    return series;
  }
  void clear() {
    for (T* series : shown_) family_.Remove(series);
    shown_.clear();
  }

 private:
  Family<T>& family_;
  std::set<T*> shown_;
};

/// Where the ranks of a run on several hosts are. A run on one host has no names of hosts, so that
/// its series are the same wherever it runs.
class HostsOfRanks {
 public:
  void add(const std::string& host) { names_.insert(host); }
  /// The ranks of a new configuration. Whether one of them is on another host than before.
  bool move(const std::vector<RankStatus>& ranks) {
    std::map<int, std::string> by_rank;
    by_place_.clear();
    for (const RankStatus& rank : ranks) {
      if (names_.size() < 2) break;
      by_rank[rank.rank] = rank.host;
      by_place_[{rank.replica, rank.stage, rank.shard}] = rank.host;
    }
    return std::exchange(by_rank_, by_rank) != by_rank;
  }
  /// Empty in a run on one host.
  std::string of_rank(int rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() ? "" : found->second;
  }
  std::string of_place(const StepReport::StageTime& s) const {
    const auto found = by_place_.find({s.replica, s.stage, s.shard});
    return found == by_place_.end() ? "" : found->second;
  }
  /// By host; none in a run on one.
  std::map<std::string, int> num_ranks() const {
    std::map<std::string, int> ranks;
    for (const std::string& host : names_)
      if (names_.size() > 1) ranks[host] = 0;
    for (const auto& [rank, host] : by_rank_) ++ranks[host];
    return ranks;
  }

 private:
  std::set<std::string> names_;
  std::map<int, std::string> by_rank_;
  std::map<std::tuple<int, int, int>, std::string> by_place_;  // replica, stage, shard
};

Labels on_host(const std::string& host, Labels labels) {
  if (!host.empty()) labels["host"] = host;
  return labels;
}

}  // namespace

/// The metrics and how each event changes them. Only one thread calls it; the registry's metrics
/// may be read meanwhile.
class PrometheusEndpoint::Metrics {
 public:
  Metrics(Registry& registry, const PeakRate& peak) : registry_(registry), peak_(peak) {}

  void apply(const RunEvent& event) {
    configuration_.Set(event.configuration);
    std::visit([&](const auto& body) { count(event, body); }, event.body);
  }

 private:
  void count(const RunEvent&, const StepCommitted& step) {
    const StepReport& r = step.report;
    steps_.Increment();
    loss_.Set(r.loss);
    grad_norm_.Set(r.grad_norm);
    lr_.Set(r.lr);
    tokens_.Increment(static_cast<double>(r.tokens));
    step_s_.Observe(r.step_s);
    for (const auto& source : r.sources) {
      if (source.tokens == 0) continue;
      source_loss_.Add({{"source", source.name}}).Set(source.loss);
      source_tokens_.Add({{"source", source.name}}).Increment(static_cast<double>(source.tokens));
    }
    if (const auto utilization = peak_.utilization(r, num_ranks_)) mfu_.Add({}).Set(*utilization);
    for (const auto& s : r.stages()) {
      const std::string host = hosts_.of_place(s);
      const Labels place = on_host(host, {{"replica", std::to_string(s.replica)},
                                          {"stage", std::to_string(s.stage)},
                                          {"shard", std::to_string(s.shard)}});
      if (!host.empty()) {
        host_bytes_.Add({{"host", host}, {"link", "shm"}})
            .Increment(static_cast<double>(s.host_bytes));
        host_bytes_.Add({{"host", host}, {"link", "tcp"}})
            .Increment(static_cast<double>(s.network_bytes));
      }
      busy_.of(place, {{"phase", "compute"}}).Increment(s.busy_s);
      idle_.of(place, {{"cause", "message"}}).Increment(std::max(0.0, s.idle_s - s.collective_s));
      idle_.of(place, {{"cause", "collective"}}).Increment(s.collective_s);
      if (s.device_total_bytes == 0) continue;
      device_used_.of(place).Set(static_cast<double>(s.device_used_bytes));
      device_total_.of(place).Set(static_cast<double>(s.device_total_bytes));
    }
    for (const auto& e : r.edges()) {
      const Labels link{{"src", std::to_string(e.from)}, {"dst", std::to_string(e.to)}};
      bytes_.of(link, {{"kind", "tensor"}}).Increment(static_cast<double>(e.bytes));
      waits_.of(link).Increment(e.wait_s);
    }
  }
  void count(const RunEvent&, const StepAgain&) { steps_again_.Increment(); }
  void count(const RunEvent&, const EvaluationDone& evaluation) {
    eval_loss_.Set(evaluation.loss);
    for (const auto& [name, loss] : evaluation.sets) set_loss_.Add({{"set", name}}).Set(loss);
  }
  void count(const RunEvent& event, const CheckpointSaved& checkpoint) {
    checkpoint_s_.Observe(checkpoint.duration_s);
    count_kind(event);
  }
  void count(const RunEvent& event, const RankActivity& activity) {
    if (event.configuration < members_of_)
      return;  // a late heartbeat from a rank of an earlier configuration
    const std::string rank = std::to_string(event.rank);
    const Labels labels = on_host(hosts_.of_rank(event.rank), {{"rank", rank}});
    resident_.of(labels).Set(static_cast<double>(activity.resident_bytes));
    const nlohmann::json allocated = activity.allocated;
    for (const auto& [purpose, bytes] : allocated.items())
      if (purpose != "total")
        allocated_.of(labels, {{"purpose", purpose}}).Set(bytes.get<double>());
    mailboxes_.of(labels, {{"actor", "stage"}}).Set(static_cast<double>(activity.mailbox_depth));
    for (const auto& link : activity.links)
      queued_.of({{"src", rank}, {"dst", std::to_string(link.to)}}).Set(link.queued);
  }
  void count(const RunEvent&, const DirectorActivity& activity) {
    mailbox_.Add({{"actor", "director"}}).Set(static_cast<double>(activity.mailbox_depth));
    for (const double s : activity.handler_s) handler_s_.Observe(s);
  }
  void count(const RunEvent& event, const MembershipChanged& membership) {
    num_ranks_ = static_cast<double>(membership.ranks.size());
    members_of_ = event.configuration;
    const Pipeline& members = membership.pipeline;
    const bool have_moved = hosts_.move(membership.ranks);
    if (have_moved || shape_ != std::tie(members.pp, members.dp, members.tp, membership.schedule))
      clear();
    shape_ = {members.pp, members.dp, members.tp, membership.schedule};
    show_hosts();
    ranks_.Set(num_ranks_);
    count_kind(event);
  }
  void count(const RunEvent& event, const HostChanged& host) {
    hosts_.add(host.host);
    show_hosts();
    if (host.state == "lost") host_losses_.Add({{"host", host.host}}).Increment();
    count_kind(event);
  }
  void count(const RunEvent& event, const Recovered& recovered) {
    stall_s_.Observe(recovered.stall_s);
    count_kind(event);
  }
  template <typename Body>
  void count(const RunEvent& event, const Body&) {
    count_kind(event);
  }
  void count_kind(const RunEvent& event) {
    recent_events_.Add({{"kind", std::string(kind_name(event))}}).Increment();
  }

  void show_hosts() {
    for (const auto& [host, ranks] : hosts_.num_ranks()) {
      host_ranks_.Add({{"host", host}}).Set(ranks);
      host_losses_.Add({{"host", host}});
    }
  }

  /// Removes the series of the old ranks, stages and links.
  void clear() {
    for (auto* counters : {&busy_, &idle_, &bytes_, &waits_}) counters->clear();
    for (auto* gauges :
         {&queued_, &mailboxes_, &resident_, &allocated_, &device_used_, &device_total_})
      gauges->clear();
  }

  Registry& registry_;
  const PeakRate peak_;
  std::uint32_t members_of_ = 0;  ///< configuration of the newest membership
  std::tuple<int, int, int, std::string> shape_;
  HostsOfRanks hosts_;
  double num_ranks_ = 0;
  Gauge& loss_ = gauges(registry_, "troupe_train_loss", "Loss of the newest step.").Add({});
  Gauge& eval_loss_ =
      gauges(registry_, "troupe_eval_loss", "Loss of the newest evaluation.").Add({});
  Gauge& grad_norm_ =
      gauges(registry_, "troupe_train_grad_norm", "Gradient norm before clipping.").Add({});
  Gauge& lr_ = gauges(registry_, "troupe_train_learning_rate", "Learning rate.").Add({});
  Gauge& configuration_ =
      gauges(registry_, "troupe_run_configuration", "Version of the cluster.").Add({});
  Gauge& ranks_ = gauges(registry_, "troupe_run_ranks", "Ranks of the configuration.").Add({});
  Counter& steps_ = counters(registry_, "troupe_train_steps_total", "Steps committed.").Add({});
  Counter& steps_again_ = counters(registry_, "troupe_train_steps_again_total",
                                   "Steps computed again after a recovery went back.")
                              .Add({});
  Counter& tokens_ = counters(registry_, "troupe_train_tokens_total", "Tokens trained on.").Add({});
  Histogram& step_s_ = histograms(registry_, "troupe_train_step_duration_seconds",
                                  "Wall time from commit to commit.")
                           .Add({}, duration_buckets());
  Histogram& checkpoint_s_ = histograms(registry_, "troupe_checkpoint_duration_seconds",
                                        "From the order to save to the complete checkpoint.")
                                 .Add({}, duration_buckets());
  Histogram& stall_s_ = histograms(registry_, "troupe_recovery_stall_seconds",
                                   "From a worker's loss to the end of the first new step.")
                            .Add({}, duration_buckets());
  Histogram& handler_s_ = histograms(registry_, "troupe_actor_handler_duration_seconds",
                                     "Time that an event took an actor.")
                              .Add({{"actor", "director"}}, handler_buckets());
  PassingSeries<Counter> busy_{
      counters(registry_, "troupe_pipeline_stage_busy_seconds_total", "Time a stage computed.")};
  PassingSeries<Counter> idle_{
      counters(registry_, "troupe_pipeline_stage_idle_seconds_total",
               "Time a stage waited while its plan ran: for messages of other stages, or for "
               "collectives of its shards and replicas.")};
  PassingSeries<Counter> bytes_{counters(registry_, "troupe_link_bytes_total",
                                         "Payload bytes sent from rank src to rank dst.")};
  PassingSeries<Counter> waits_{counters(registry_, "troupe_link_wait_seconds_total",
                                         "Time that rank dst waited for messages of rank src.")};
  Family<Gauge>& mailbox_ =
      gauges(registry_, "troupe_actor_mailbox_depth",
             "Messages that wait for an actor: the director, or a rank's stage.");
  Family<Gauge>& mfu_ =
      gauges(registry_, "troupe_train_mfu_ratio", "Model FLOP/s over the peak rate of all ranks.");
  Family<Gauge>& set_loss_ = gauges(registry_, "troupe_eval_set_loss",
                                    "Loss of the newest evaluation on one of several sets.");
  Family<Gauge>& source_loss_ =
      gauges(registry_, "troupe_train_source_loss",
             "Loss of a mixture's source in the newest step that had it.");
  Family<Counter>& source_tokens_ = counters(registry_, "troupe_train_source_tokens_total",
                                             "Tokens of a mixture's source that were trained on.");
  Family<Gauge>& host_ranks_ = gauges(registry_, "troupe_host_ranks", "Ranks on a host.");
  Family<Counter>& host_losses_ =
      counters(registry_, "troupe_host_losses_total", "How often a host was lost.");
  Family<Counter>& host_bytes_ = counters(
      registry_, "troupe_host_sent_bytes_total",
      "Bytes that the ranks of a host sent each other (shm) and ranks of other hosts (tcp).");
  PassingSeries<Gauge> mailboxes_{mailbox_};
  PassingSeries<Gauge> queued_{gauges(registry_, "troupe_link_queue_depth",
                                      "Tensors of rank src that wait for a credit of rank dst.")};
  PassingSeries<Gauge> resident_{gauges(registry_, "troupe_process_resident_memory_bytes",
                                        "Resident memory of a rank's process.")};
  PassingSeries<Gauge> allocated_{gauges(registry_, "troupe_rank_allocated_memory_bytes",
                                         "Memory that a rank has allocated, by what it is for.")};
  PassingSeries<Gauge> device_used_{gauges(registry_, "troupe_device_memory_used_bytes",
                                           "Memory of a rank's GPU that processes use.")};
  PassingSeries<Gauge> device_total_{
      gauges(registry_, "troupe_device_memory_total_bytes", "Memory of a rank's GPU.")};
  Family<Counter>& recent_events_ = counters(registry_, "troupe_run_events_total",
                                             "What happened beside steps, by kind of event.");
};

struct PrometheusEndpoint::Parts {
  explicit Parts(const PeakRate& peak) : metrics(*registry, peak) {}
  HttpAddress address;
  std::shared_ptr<Registry> registry = std::make_shared<Registry>();
  Metrics metrics;
  std::optional<prometheus::Exposer> exposer;
  std::optional<SubscriberThread> thread;
};

PrometheusEndpoint::PrometheusEndpoint(Hub& hub, const HttpAddress& address, const PeakRate& peak)
    : parts_(std::make_unique<Parts>(peak)) {
  parts_->address = address;
  gauges(*parts_->registry, "troupe_build_info", "The program's version; always 1.")
      .Add({{"version", TROUPE_VERSION}})
      .Set(1);
  try {
    parts_->exposer.emplace(address.text(), 1);
  } catch (const std::exception& e) {
    throw Error(ErrorKind::manifest,
                fmt::format("monitor.prometheus = \"{}\" cannot be used: {}; port 0 takes any free "
                            "port",
                            address.text(), e.what()));
  }
  parts_->exposer->RegisterCollectable(parts_->registry);
  parts_->thread.emplace(hub, "prometheus",
                         all_events() & ~mask_of<ActionsTraced, TensorTapped, ParametersSeen>(),
                         [parts = parts_.get()](const Subscription::Batch& batch) {
                           for (const auto& event : batch.events) parts->metrics.apply(*event);
                         });
}

PrometheusEndpoint::~PrometheusEndpoint() = default;

std::string PrometheusEndpoint::url() const {
  return parts_->address.url(parts_->exposer->GetListeningPorts().at(0), "/metrics");
}

}  // namespace troupe::launch
