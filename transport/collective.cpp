#include "transport/collective.h"

#include <algorithm>

#include "tensor/error.h"
#include "transport/ordered_sum.h"
#include "transport/ucx/ucx_group.h"

namespace troupe::transport {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
    case Operation::all_gather:
      return "all-gather";
    case Operation::reduce_scatter:
      return "reduce-scatter";
    case Operation::all_to_all:
      return "all-to-all";
    case Operation::broadcast:
      break;
  }
  return "broadcast";
}

bool Collective::done() const {
  return group_->poll(*this);
}

void Collective::wait() {
  group_->wait_for(*this);
}

void Collective::operator delete(Collective* self, std::destroying_delete_t) {
  self->group_->take_back(*self);
}

void Collective::Destroy::operator()(Collective* collective) const {
  collective->~Collective();
  ::operator delete(collective);
}

void Collective::start(const Call& call, std::uint64_t sequence) {
  call_ = call;
  sequence_ = sequence;
  next_round_ = 0;
  rounds_left_ = num_rounds();
  for (Round& round : rounds_) {
    round.state = Round::State::idle;
    round.parts.clear();
  }
  for (Round& round : rounds_)
    if (next_round_ < num_rounds()) launch(round);
}

void Collective::launch(Round& round) {
  round.index = next_round_++;
  round.sum_elements = 0;
  round.parts.clear();
  // At most four per member: one to send and one to receive in each of the two phases.
  round.parts.reserve(4 * static_cast<std::size_t>(group_->size()));
  round.summands.clear();
  plan(round);
  for (Part& part : round.parts)
    if (part.kind == Part::Kind::receive) group_->ask_for(*this, part);
  offer_parts(round, 0);
  // Set only now: parts that are done within the calls above must not end the round.
  round.state = Round::State::gathering;
  settle(round);
}

void Collective::offer_parts(Round& round, std::uint32_t phase) {
  for (Part& part : round.parts)
    if (part.kind == Part::Kind::send && part.number % 2 == phase) group_->offer(*this, part);
}

Part* Collective::find(Part::Kind kind, Part::State state, int member, std::uint32_t number) {
  for (Round& round : rounds_)
    for (Part& part : round.parts)
      if (part.kind == kind && part.state == state && part.member == member &&
          part.number == number)
        return &part;
  return nullptr;
}

void Collective::on_part_done(Part& part) {
  part.state = Part::State::done;
  for (Round& round : rounds_)
    if (!round.parts.empty() && &part >= &round.parts.front() && &part <= &round.parts.back())
      return settle(round);
}

bool Collective::is_ready_to_add(const Round& round) {
  return round.state == Round::State::gathering &&
         std::ranges::all_of(round.parts, [](const Part& part) {
           return part.kind == Part::Kind::send || part.number % 2 == 1 ||
                  part.state == Part::State::done;
         });
}

void Collective::settle(Round& round) {
  // A round without a sum has nothing to gather for: it ends when all its parts are done.
  if (round.state == Round::State::gathering && round.summands.empty())
    round.state = Round::State::spreading;
  const bool is_over = round.state == Round::State::spreading &&
                       std::ranges::all_of(round.parts, [](const Part& part) {
                         return part.state == Part::State::done;
                       });
  if (is_over) {
    round.state = Round::State::idle;
    --rounds_left_;
    if (next_round_ < num_rounds() && !group_->is_aborted()) return launch(round);
  }
  group_->notify();
}

bool Collective::add_up(std::unique_lock<UcxWorker>& lock) {
  for (Round& round : rounds_) {
    if (!is_ready_to_add(round) || round.summands.empty()) continue;
    round.state = Round::State::adding;
    // Messages keep moving while the sum is computed; `adding` keeps other threads off this round.
    lock.unlock();
    ordered_sum(round.summands, round.sum, round.sum_elements, call_.in.dtype);
    lock.lock();
    round.state = Round::State::spreading;
    offer_parts(round, 1);
    settle(round);
    return true;
  }
  return false;
}

WaitNote Collective::note() const {
  WaitNote note{.what = WaitNote::What::collective,
                .operation = name_of(call_.operation),
                .sequence = sequence_,
                .group = &group_->name(),
                .missing = {}};
  for (int member = 0; member < group_->size(); ++member) {
    const bool is_missing = std::ranges::any_of(rounds_, [member](const Round& round) {
      return std::ranges::any_of(round.parts, [member](const Part& part) {
        return part.member == member && part.state != Part::State::done;
      });
    });
    if (is_missing && note.missing.size() < note.missing.capacity())
      note.missing.push_back(group_->rank_of(member));
  }
  return note;
}

std::vector<int> Collective::members_under_way() const {
  std::vector<int> members;
  for (const Round& round : rounds_)
    for (const Part& part : round.parts)
      if (part.state == Part::State::started) members.push_back(part.member);
  return members;
}

}  // namespace troupe::transport
