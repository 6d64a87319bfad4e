#include "actors/protocol/protocol.h"

#include <utility>

namespace troupe::actors {

DirectorProtocol::DirectorProtocol(RunSpec spec, const RunStart& start)
    : spec_(std::move(spec)),
      first_step_(start.first_step),
      roster_(start.seed),
      hosts_(spec_.cluster.hosts),
      gathering_(first_shape(spec_)),
      wanted_(gathering_.target().shape),
      committed_(start.first_step),
      reached_(start.reported),
      evaluated_(start.evaluated),
      checkpoint_(start.saved_step) {
  if (start.left.empty()) return;
  takeover_.adoption.emplace(start.left);
  takeover_.left_by = start.left_by;
}

std::optional<CatchUp> DirectorProtocol::catch_up() const {
  return committed_ < reached_ ? std::optional(newest_way()) : std::nullopt;
}

std::optional<std::int64_t> DirectorProtocol::evaluated() const {
  return phase_ == Phase::evaluating ? std::optional(evaluation_.num_done()) : std::nullopt;
}

/// The name of who has sent an event; empty if nobody is known.
template <typename E>
std::string DirectorProtocol::sender_of(const E& event) const {
  if constexpr (requires { event.incarnation; }) return name_of_worker(event.incarnation);
  if constexpr (requires { event.replica; }) return "replica " + std::to_string(event.replica);
  return "";
}

std::vector<Effect> DirectorProtocol::on(const Event& event) {
  if (phase_ == Phase::ended) return {};
  std::visit(
      [this](const auto& e) {
        const std::string why = fault_in(e);
        if (why.empty())
          handle(e);
        else
          emit(ReportRefused{.sender = sender_of(e), .why = why});
      },
      event);
  return std::exchange(effects_, {});
}

void DirectorProtocol::start_timer(double seconds) {
  emit(StartTimer{.timer = ++timer_, .seconds = seconds});
}

std::string DirectorProtocol::name_of_worker(std::uint64_t incarnation) const {
  if (const int rank = configuration_.rank_of(incarnation);
      rank >= 0 && rank < configuration_.num_ranks())
    return name_of(configuration_.shape, rank);
  if (const int rank = gathering_.rank_of(incarnation); rank >= 0 && phase_ == Phase::gathering)
    return name_of(gathering_.target().shape, rank);
  if (const int rank = scale_ ? scale_->rank_of(incarnation) : -1; rank >= 0)
    return name_of(scale_->target.shape, rank);
  const Roster::Worker* worker = roster_.find(incarnation);
  return "worker " + (worker ? std::to_string(worker->member.id) : "?");
}

}  // namespace troupe::actors
