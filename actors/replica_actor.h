#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "actors/control_plane.h"
#include "actors/protocol.h"
#include "stages/model_config.h"

namespace troupe::actors {

/// Collects one kind of answer until every stage of the replica has given it. A later step's
/// answers replace an unfinished earlier round.
template <typename Answer>
class Gathering {
 public:
  explicit Gathering(std::size_t num_stages) : answers_(num_stages), is_in_(num_stages, false) {}
  /// True once the last one is in: answers() are complete until the next one comes.
  bool add(std::size_t stage, Answer answer) {
    answers_.at(stage) = std::move(answer);
    if (!is_in_[stage]) ++count_;
    is_in_[stage] = true;
    if (count_ < answers_.size()) return false;
    is_in_.assign(answers_.size(), false);
    count_ = 0;
    return true;
  }
  /// By stage.
  const std::vector<Answer>& answers() const { return answers_; }

 private:
  std::vector<Answer> answers_;
  std::vector<bool> is_in_;
  std::size_t count_ = 0;
};

/// All stages of a replica have voted on a step. Local to the launcher.
struct ReplicaVote {
  ReplicaPrepared sum;
  std::shared_ptr<const StepReport::Measured> measured;
};

struct StageHandle {
  caf::actor actor;
  std::uint64_t incarnation = 0;
};

/// A data-parallel replica of the pipeline: passes orders to its stages, sums their answers up in
/// one message for the director, and watches that the stages are there. Lives in the launching
/// process.
class ReplicaActor : public ControlActor {
 public:
  using Parameters = std::shared_ptr<const std::vector<stages::ParameterInfo>>;
  /// `parameters` are the model's.
  ReplicaActor(caf::actor_config& config, int replica, std::vector<StageHandle> stages,
               Parameters parameters, caf::actor director);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  template <typename Order>
  void pass_on(const Order& order);
  std::size_t stage_of(int rank) const { return static_cast<std::size_t>(rank) % stages_.size(); }
  void add(const Ready& answer);
  void add(const Prepared& answer);
  void add(const Saved& answer);
  void add(const Evaluated& answer);
  void on_failure(const std::string& what) override;
  void on_down(const caf::actor_addr& who) override;

  const int replica_;
  std::vector<StageHandle> stages_;
  const Parameters parameters_;
  caf::actor director_;
  Gathering<Ready> ready_;
  Gathering<Prepared> prepared_;
  Gathering<Saved> saved_;
  Gathering<Evaluated> evaluated_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::ReplicaVote)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Event)
