#pragma once

#include <array>
#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/agent/processes.h"
#include "actors/director/configuration_orders.h"
#include "actors/director/status_board.h"
#include "actors/hosts/director_messages.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/message_checks.h"
#include "actors/monitors/hub.h"
#include "actors/protocol/liveness.h"
#include "actors/protocol/protocol.h"
#include "stages/model/model_config.h"

namespace troupe::actors {

/// Collects one kind of answer until every rank of the replica has given it. Answers of a later
/// step replace those of an unfinished earlier round.
template <typename Answer>
class RankAnswers {
 public:
  explicit RankAnswers(std::size_t num_ranks) : answers_(num_ranks), is_in_(num_ranks, false) {}
  /// Adds a rank's answer. True if it was the last one: answers() are complete until the next
  /// call.
  bool add(std::size_t rank, Answer answer) {
    answers_.at(rank) = std::move(answer);
    if (!is_in_[rank]) ++count_;
    is_in_[rank] = true;
    if (count_ < answers_.size()) return false;
    is_in_.assign(answers_.size(), false);
    count_ = 0;
    return true;
  }
  /// The newest answer of each rank.
  const std::vector<Answer>& answers() const { return answers_; }

 private:
  std::vector<Answer> answers_;
  std::vector<bool> is_in_;
  std::size_t count_ = 0;
};

/// All ranks of a replica have voted on a step. Sent only within the launcher.
struct ReplicaVote {
  ReplicaPrepared sum;
  std::shared_ptr<const StepReport::Measured> measured;
};

struct RankHandle {
  StageRef actor;
  std::uint64_t incarnation = 0;
};

/// The replica's actor watches over its ranks from now on, until they halt. Sent only within the
/// launcher.
struct RanksWatched {
  std::uint32_t configuration = 0;
  int replica = 0;
};

/// What a replica's actor works with. The references outlive the actor.
struct ReplicaContext {
  int replica = 0;
  std::vector<RankHandle> ranks;  ///< in the order of their ranks
  /// Parameters of the model.
  std::shared_ptr<const std::vector<stages::ParameterInfo>> parameters;
  RunSpec::Recovery recovery;
  Liveness::HearsHost hears_host;
  Liveness::CpuSeconds cpu_seconds;
  caf::actor director;
  Hub& hub;
  StatusBoard& board;
  const Processes& processes;
};

/// A data-parallel replica of the pipeline in one configuration: passes orders to the shards of its
/// stages, sums up their answers in one message for the director, and watches over them. Lives in
/// the launching process.
class ReplicaActor : public ControlActor {
 public:
  ReplicaActor(caf::actor_config& config, ReplicaContext context);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  int first_rank(const ConfigurationOrders& orders) const;
  void begin(const std::shared_ptr<const ConfigurationOrders>& orders);
  void halt(const Halt& order);
  void on_heartbeat(const Heartbeat& beat);
  void watch_over_ranks();
  template <typename Order>
  void pass_on(const Order& order);
  /// The place of a rank among those of the replica.
  std::size_t index_of(int rank) const {
    return static_cast<std::size_t>(rank) % context_.ranks.size();
  }
  /// The configuration, ranks and step to which answers of its ranks must belong. Requires orders_.
  ReplicaPart part() const;
  /// Adds an answer that can be used. An impossible one is reported to the director; one that comes
  /// late, or before the configuration begins, is ignored.
  template <typename Answer>
  void take(const Answer& answer, const char* name);
  std::string sender_name();
  template <typename Body>
  void add(const Observation<Body>& seen);
  void add(const TracedActions& seen);
  void add(const Ready& answer);
  void add(const Prepared& answer);
  void add(const Copied& answer);
  void add(const Saved& answer);
  void add(const Evaluated& answer);
  void on_failure(const std::string& what) override;
  void on_error_of_peer(const std::string& what) override;
  void on_down(const caf::actor_addr& who) override;

  ReplicaContext context_;
  // The configuration's orders; null until the scheduler has made them.
  std::shared_ptr<const ConfigurationOrders> orders_;
  caf::actor scheduler_;  ///< the sender of orders_
  bool halted_ = false;
  std::int64_t committed_ = 0;
  Liveness liveness_;
  RankAnswers<Ready> ready_;
  RankAnswers<Prepared> prepared_;
  RankAnswers<Copied> copied_;
  RankAnswers<Saved> saved_;
  std::array<RankAnswers<Evaluated>, 2> evaluated_;  // answers for even and for odd batches
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<const troupe::actors::ConfigurationOrders>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::RanksWatched)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::ReportRefused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::ReplicaVote)
