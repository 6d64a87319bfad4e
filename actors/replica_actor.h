#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <optional>
#include <vector>

#include "actors/control_plane.h"
#include "actors/protocol.h"
#include "actors/tally.h"

namespace troupe::actors {

/// Collects one kind of answer until every stage of the replica has given it. A later step's
/// answers replace an unfinished earlier round.
template <typename Answer>
class Gathering {
 public:
  explicit Gathering(std::size_t num_stages) : answers_(num_stages) {}
  /// All answers, by stage, once the last one is in.
  std::optional<std::vector<Answer>> add(std::size_t stage, const Answer& answer) {
    answers_.at(stage) = answer;
    std::vector<Answer> all;
    for (const auto& a : answers_)
      if (a) all.push_back(*a);
    if (all.size() < answers_.size()) return std::nullopt;
    for (auto& a : answers_) a.reset();
    return all;
  }

 private:
  std::vector<std::optional<Answer>> answers_;
};

struct StageHandle {
  caf::actor actor;
  std::uint64_t incarnation = 0;
};

/// A data-parallel replica of the pipeline: passes orders to its stages, gathers their answers into
/// one message for the director, and watches that the stages are there. Lives in the launching
/// process.
class ReplicaActor : public ControlActor {
 public:
  ReplicaActor(caf::actor_config& config, int replica, std::vector<StageHandle> stages,
               caf::actor director);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  template <typename Order>
  void pass_on(const Order& order);
  template <typename Answer>
  void gather(Gathering<Answer>& gathering, const Answer& answer);
  void on_failure(const std::string& what) override;
  void on_down(const caf::actor_addr& who) override;

  const int replica_;
  std::vector<StageHandle> stages_;
  caf::actor director_;
  Gathering<Ready> ready_;
  Gathering<Prepared> prepared_;
  Gathering<Saved> saved_;
  Gathering<Evaluated> evaluated_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::OfReplica<troupe::actors::Ready>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::OfReplica<troupe::actors::Prepared>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::OfReplica<troupe::actors::Saved>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::OfReplica<troupe::actors::Evaluated>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Event)
