#include "transport/collectives/collective.h"

#include <algorithm>

#include "tensor/cpu/ops/ordered_reduction.h"
#include "tensor/device/host_memory.h"
#include "tensor/errors/error.h"
#include "transport/collectives/ucx_group.h"
#include "transport/memory/slot_memory.h"

namespace troupe::transport {
namespace {

/// A job of at most this size is done at once, with the lock held: it takes no longer than handing
/// it to another thread.
constexpr std::size_t kAtOnceBytes = 16u << 10;

}  // namespace

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter;
}

void Collective::wait() {
  group_->wait_for(*this);
}

void Collective::announce() {
  group_->announce();
}

void Collective::operator delete(Collective* self, std::destroying_delete_t) {
  self->group_->take_back(*self);
}

void Collective::Destroy::operator()(Collective* collective) const {
  collective->~Collective();
  ::operator delete(collective);
}

// --- rounds

void Collective::start(const CollectiveCall& call, std::uint64_t sequence) {
  sequence_ = sequence;
  over_.store(false, std::memory_order_relaxed);
  plan(call);
  step_ = kPieceBytes / in_.element_bytes();
  const std::size_t most = most_elements();
  num_rounds_ = static_cast<std::uint32_t>((most + step_ - 1) / step_);
  if (operation_ == Operation::barrier && group_->size() > 1) num_rounds_ = 1;
  slot_bytes_ = in_cache_lines(std::min(most, step_) * in_.element_bytes());
  receives_ = num_receives();
  next_round_ = 0;
  rounds_left_ = num_rounds_;
}

std::size_t Collective::needed_bytes() const {
  return slots_bytes(most_elements() * in_.element_bytes(), receives_);
}

void Collective::begin(std::shared_ptr<SlotMemory> slots) {
  slots_ = std::move(slots);
  for (Round& round : rounds_)
    if (next_round_ < num_rounds_) launch(round);
  update_over();
}

std::size_t Collective::staging_bytes() const {
  std::size_t bytes = 0;
  for (const Round& round : rounds_) bytes += round.staging.bytes();
  return bytes;
}

std::size_t Collective::most_elements() const {
  std::size_t most = own_.size;
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    if (static_cast<int>(i) == group_->member()) continue;
    for (const std::size_t phase : {0u, 1u})
      most = std::max({most, flows_[i].sends[phase].size, flows_[i].receives[phase].size});
  }
  return most;
}

std::size_t Collective::num_receives() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < flows_.size(); ++i)
    if (static_cast<int>(i) != group_->member())
      for (const ElementRange& piece : flows_[i].receives) count += piece.size > 0 ? 1 : 0;
  return count;
}

void Collective::launch(Round& round) {
  round.index = next_round_++;
  round.is_reducing = round.is_reduced = false;
  round.own = cut(own_, round.index);
  round.result = nullptr;
  if (operation_ == Operation::reduce_scatter) {
    const ElementRange own_out = cut({.begin = 0, .size = own_.size}, round.index);
    out_.visit(own_out, [&](std::byte* data, std::size_t, std::size_t) { round.result = data; });
  }
  round.summands.assign(flows_.size(), nullptr);
  round.shares.resize(flows_.size());
  round.parts.clear();
  round.num_slots = 0;
  // At most four per member: one to send and one to receive in each of the two phases.
  round.parts.reserve(4 * flows_.size());
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const int member = static_cast<int>(i);
    if (member == group_->member()) continue;
    for (const std::uint32_t phase : {0u, 1u}) {
      add_part(round, GroupPart::Kind::send, phase, member, flows_[i].sends[phase]);
      add_part(round, GroupPart::Kind::receive, phase, member, flows_[i].receives[phase]);
    }
  }
  for (GroupPart& part : round.parts)
    if (part.kind == GroupPart::Kind::receive) group_->ask_for(*this, part);
  offer_parts(round, 0);
  // Set only now: what is done within the calls above must not end the round.
  round.is_live = true;
  advance(round);
}

void Collective::add_part(Round& round, GroupPart::Kind kind, std::uint32_t phase, int member,
                          ElementRange piece) {
  const ElementRange cut_piece = cut(piece, round.index);
  const bool is_signal = operation_ == Operation::barrier && phase == 0;
  // Both members know the size, so an empty part needs no message.
  if (cut_piece.size == 0 && !is_signal) return;
  TROUPE_ASSERT(round.parts.size() < round.parts.capacity());
  GroupPart& part = round.parts.emplace_back();
  part.kind = kind;
  part.member = member;
  part.number = 2 * round.index + phase;
  part.piece = cut_piece;
  part.bytes = cut_piece.size * in_.element_bytes();
  if (kind == GroupPart::Kind::send || part.bytes == 0) return;
  const auto at = static_cast<std::size_t>(&round - rounds_.data());
  part.slot = slots_->data() + (at * receives_ + round.num_slots++) * slot_bytes_;
  if (is_summand(part)) round.summands[static_cast<std::size_t>(member)] = part.slot;
}

ElementRange Collective::cut(ElementRange piece, std::uint32_t round) const {
  const std::size_t offset = round * step_;
  if (offset >= piece.size) return {};
  return {.begin = piece.begin + offset, .size = std::min(step_, piece.size - offset)};
}

bool Collective::is_summand(const GroupPart& part) const {
  return part.kind == GroupPart::Kind::receive && reduces(operation_) && part.phase() == 0;
}

void Collective::offer_parts(Round& round, std::uint32_t phase) {
  for (GroupPart& part : round.parts)
    if (part.kind == GroupPart::Kind::send && part.phase() == phase) group_->offer(*this, part);
}

GroupPart* Collective::find(GroupPart::Kind kind, GroupPart::State state, int member,
                            std::uint32_t number) {
  for (Round& round : rounds_)
    for (GroupPart& part : round.parts)
      if (part.kind == kind && part.state == state && part.member == member &&
          part.number == number)
        return &part;
  return nullptr;
}

Collective::Round& Collective::round_of(const GroupPart& part) {
  const auto found = std::ranges::find_if(rounds_, [&part](const Round& round) {
    return !round.parts.empty() && &part >= &round.parts.front() && &part <= &round.parts.back();
  });
  TROUPE_ASSERT(found != rounds_.end());
  return *found;
}

void Collective::on_asked(GroupPart& part, std::byte* slot) {
  Round& round = round_of(part);
  part.state = GroupPart::State::asked;
  part.is_written = slot != nullptr || part.bytes == 0;
  part.slot = slot;
  if (!part.is_written) {
    const std::size_t bytes = round.parts.capacity() * slot_bytes_;
    if (round.staging.bytes() < bytes) round.staging = tensor::allocate_host(bytes);
    part.slot = static_cast<std::byte*>(round.staging.data()) +
                static_cast<std::size_t>(&part - round.parts.data()) * slot_bytes_;
  }
  advance(round);
}

void Collective::on_arrived(GroupPart& part) {
  part.state = is_summand(part) ? GroupPart::State::done : GroupPart::State::arrived;
  advance(round_of(part));
}

void Collective::on_sent(GroupPart& part) {
  part.state = GroupPart::State::done;
  advance(round_of(part));
}

void Collective::advance(Round& round) {
  if (!round.is_live || group_->is_aborted()) return;
  while (const auto job = next_job(round)) {
    if (bytes_of(*job) > kAtOnceBytes) return group_->offer_work();
    begin(*job);
    run(*job);
    complete(*job);
  }
  if (!round.is_live || !is_over(round)) return;
  round.is_live = false;
  --rounds_left_;
  if (next_round_ < num_rounds_) return launch(round);
  if (is_finished()) update_over();
}

bool Collective::is_over(const Round& round) const {
  return (round.own.size == 0 || round.is_reduced) &&
         std::ranges::all_of(round.parts, [](const GroupPart& part) {
           return part.state == GroupPart::State::done;
         });
}

// --- jobs

bool Collective::can_reduce(const Round& round) const {
  if (round.own.size == 0 || round.is_reducing || round.is_reduced) return false;
  return std::ranges::all_of(round.parts, [this](const GroupPart& part) {
    if (part.phase() == 1 || part.state == GroupPart::State::done) return true;
    if (part.kind == GroupPart::Kind::receive) return false;
    // The sum of a gathered reduction overwrites values that others may not have yet.
    return !is_gathered_ || part.state == GroupPart::State::started;
  });
}

std::optional<Collective::Job> Collective::next_job(Round& round) {
  const auto in_state = [&round](GroupPart::State state) {
    const auto found = std::ranges::find(round.parts, state, &GroupPart::state);
    return found == round.parts.end() ? nullptr : &*found;
  };
  // What others wait for comes first.
  if (GroupPart* part = in_state(GroupPart::State::asked)) return Job{this, &round, part};
  if (can_reduce(round)) return Job{this, &round, nullptr};
  if (GroupPart* part = in_state(GroupPart::State::arrived)) return Job{this, &round, part};
  return std::nullopt;
}

std::size_t Collective::bytes_of(const Job& job) const {
  if (job.part) return job.part->bytes;
  return job.round->own.size * in_.element_bytes() * flows_.size();
}

std::optional<Collective::Job> Collective::begin_job() {
  for (Round& round : rounds_) {
    if (!round.is_live) continue;
    if (const auto job = next_job(round)) {
      begin(*job);
      return job;
    }
  }
  return std::nullopt;
}

void Collective::begin(const Job& job) {
  ++running_jobs_;
  if (job.part)
    job.part->state = GroupPart::State::copying;
  else
    job.round->is_reducing = true;
}

void Collective::run(const Job& job) {
  const Collective& self = *job.collective;
  if (!job.part) return self.reduce(*job.round);
  const GroupPart& part = *job.part;
  if (part.kind == GroupPart::Kind::receive)
    self.out_.write(part.piece, part.slot);
  else
    (part.phase() == 0 ? self.in_ : self.out_).read(part.piece, part.slot);
}

void Collective::reduce(Round& round) const {
  in_.visit(round.own, [&](std::byte* data, std::size_t offset, std::size_t count) {
    const std::size_t offset_bytes = offset * in_.element_bytes();
    for (std::size_t member = 0; member < flows_.size(); ++member) {
      const std::byte* values = round.summands[member];
      round.shares[member] = values ? values + offset_bytes : data;
    }
    std::byte* out = round.result ? round.result + offset * out_.element_bytes() : data;
    if (widens_)
      tensor::ordered_reduction_to_f32(round.shares, out, count, reduction_);
    else
      tensor::ordered_reduction(round.shares, out, count, dtype_, reduction_);
  });
}

void Collective::complete(const Job& job) {
  --running_jobs_;
  if (group_->is_aborted()) return update_over();
  if (!job.part) {
    job.round->is_reduced = true;
    offer_parts(*job.round, 1);
  } else if (job.part->kind == GroupPart::Kind::receive) {
    job.part->state = GroupPart::State::done;
  } else {
    group_->send(*this, *job.part);
  }
}

void Collective::end(const Job& job) {
  job.collective->complete(job);
  job.collective->advance(*job.round);
}

void Collective::update_over() {
  if ((!is_finished() && !group_->is_aborted()) || running_jobs_ > 0) return;
  if (done()) return;
  finished_s_ = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  failed_ = !is_finished();
  over_.store(true, std::memory_order_release);
  group_->on_over(*this);
}

// --- what is missing

WaitNote Collective::note() const {
  WaitNote note{.what = WaitNote::What::collective,
                .operation = name_of(operation_),
                .sequence = sequence_,
                .group = &group_->name(),
                .missing = {}};
  for (int member = 0; member < group_->size(); ++member) {
    const bool is_missing = std::ranges::any_of(rounds_, [member](const Round& round) {
      return round.is_live && std::ranges::any_of(round.parts, [member](const GroupPart& part) {
               return part.member == member && part.state != GroupPart::State::done;
             });
    });
    if (is_missing && note.missing.size() < note.missing.capacity())
      note.missing.push_back(group_->rank_of(member));
  }
  return note;
}

bool Collective::is_held() const {
  return std::ranges::any_of(rounds_, [](const Round& round) {
    return std::ranges::any_of(
        round.parts, [](const GroupPart& part) { return part.state == GroupPart::State::started; });
  });
}

}  // namespace troupe::transport
