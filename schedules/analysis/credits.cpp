#include "schedules/analysis/credits.h"

#include "schedules/analysis/progress.h"

namespace troupe::schedules {
namespace {

constexpr int kSendBuffers = 2;

bool computes_gradient(Op op) {
  return op == Op::B || op == Op::I;
}

}  // namespace

CreditRun::CreditRun(const Plan& plan, std::vector<ChunkCapacity> capacities)
    : plan_(plan),
      capacities_(std::move(capacities)),
      forward_only_(purpose_of(plan) == Purpose::forward_only),
      edges_(2 * capacities_.size()),
      done_(plan.num_ranks(), 0) {
  const auto connect = [&](Edge& edge, int from, int to, int slots) {
    edge.slots = slots;
    edge.send_buffers = plan.rank_of_chunk[from] == plan.rank_of_chunk[to] ? 0 : kSendBuffers;
    edge.number.assign(plan.num_microbatches, kNotSent);
  };
  for (int chunk = 1; chunk < plan.num_chunks(); ++chunk) {
    if (plan.is_first(chunk)) continue;
    connect(edges_[forward_into(chunk)], chunk - 1, chunk, capacities_[chunk].forward_slots);
    connect(edges_[backward_into(chunk - 1)], chunk, chunk - 1,
            capacities_[chunk - 1].backward_slots);
  }
}

bool CreditRun::advance() {
  return progress(plan_, *this, done_);
}

bool CreditRun::add_slots() {
  bool added = false;
  for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
    if (done_[rank] == plan_.actions[rank].size()) continue;
    const Action& action = plan_.actions[rank][done_[rank]];
    if (const auto in = input(action)) {
      Edge& edge = edges_[*in];
      const int number = edge.number[action.microbatch];
      if (number != kNotSent && !edge.arrived(action.microbatch)) {
        edge.slots = number + 1 - edge.released;
        added = true;
      }
    }
    if (const auto out = output(action); out && !edges_[*out].can_send()) {
      ++edges_[*out].slots;
      added = true;
    }
  }
  return added;
}

std::vector<ChunkCapacity> CreditRun::capacities() const {
  std::vector<ChunkCapacity> out = capacities_;
  for (std::size_t chunk = 0; chunk < out.size(); ++chunk) {
    out[chunk].forward_slots = edges_[forward_into(static_cast<int>(chunk))].slots;
    out[chunk].backward_slots = edges_[backward_into(static_cast<int>(chunk))].slots;
  }
  return out;
}

bool CreditRun::ready(int, const Action& action) const {
  if (action.op == Op::W) return true;  // its I has run before it on the same rank
  const auto in = input(action);
  const auto out = output(action);
  return (!in || edges_[*in].arrived(action.microbatch)) && (!out || edges_[*out].can_send());
}

void CreditRun::run(int, const Action& action) {
  if (const auto out = output(action)) {
    Edge& edge = edges_[*out];
    edge.number[action.microbatch] = edge.sent++;
  }
  if (forward_only_ || computes_gradient(action.op)) ++edges_[forward_into(action.chunk)].released;
  if (action.op == Op::B || action.op == Op::W) ++edges_[backward_into(action.chunk)].released;
}

bool CreditRun::Edge::arrived(int microbatch) const {
  return number[microbatch] != kNotSent && number[microbatch] < slots + released;
}

std::optional<std::size_t> CreditRun::input(const Action& action) const {
  if (action.op == Op::F && !plan_.is_first(action.chunk)) return forward_into(action.chunk);
  if (computes_gradient(action.op) && !plan_.is_last(action.chunk)) {
    return backward_into(action.chunk);
  }
  return {};
}

std::optional<std::size_t> CreditRun::output(const Action& action) const {
  if (action.op == Op::F && !plan_.is_last(action.chunk)) {
    return forward_into(action.chunk + 1);
  }
  if (computes_gradient(action.op) && !plan_.is_first(action.chunk)) {
    return backward_into(action.chunk - 1);
  }
  return {};
}

}  // namespace troupe::schedules
