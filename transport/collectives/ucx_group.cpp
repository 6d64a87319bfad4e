#include "transport/collectives/ucx_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::transport {
namespace {

using tensor::Stream;
using tensor::Work;

}  // namespace

UcxGroup::UcxGroup(GroupHub& hub, const GroupKey& key, const std::string& name,
                   std::vector<int> ranks, int this_rank, const CollectiveMemory& room)
    : hub_(hub),
      key_(key),
      name_(name),
      ranks_(std::move(ranks)),
      member_(member_of(this_rank)),
      counts_(ranks_.size()),
      free_slots_(static_cast<std::size_t>(room.at_once)) {
  // Enough for members a few collectives ahead, so that a step allocates nothing.
  requests_.reserve(64 * ranks_.size());
  TROUPE_ASSERT(member_ >= 0 && room.at_once > 0);
  {
    const std::lock_guard lock(hub_.worker());
    shares_memory_ =
        std::ranges::any_of(ranks_, [&](int rank) { return hub_.peers().share_memory_with(rank); });
  }
  enlarge_slots(room.slots_bytes);
  const std::lock_guard lock(hub_.worker());
  hub_.add(*this);
}

UcxGroup::~UcxGroup() {
  const std::lock_guard lock(hub_.worker());
  TROUPE_ASSERT(active_.empty());
  hub_.remove(*this);
}

// --- the collectives

/// What this member has for itself goes to its place at once.
void UcxGroup::copy_own_part(const CollectiveCall& call) const {
  const auto self = static_cast<std::size_t>(member_);
  if (call.operation != Operation::all_gather && call.operation != Operation::all_to_all) return;
  const std::int64_t from =
      call.operation == Operation::all_gather ? 0 : tensor::elements_before(call.send_counts, self);
  tensor::copy_elements(call.in[0], from, call.out[0],
                        tensor::elements_before(call.receive_counts, self),
                        call.receive_counts[self]);
}

std::unique_ptr<Work> UcxGroup::start(Stream& stream, const CollectiveCall& given) {
  const CollectiveCall call = tensor::completed(given, member_, counts_);
  stream.synchronize();
  copy_own_part(call);
  const std::lock_guard lock(hub_.worker());
  if (idle_.empty()) {
    collectives_.emplace_back(new Collective(*this));
    idle_.push_back(collectives_.back().get());
  }
  Collective* collective = idle_.back();
  idle_.pop_back();
  active_.push_back(collective);
  collective->set_record(hub_.recorder().add(record_of(call, next_sequence_)));
  collective->start(call, next_sequence_++);
  waiting_.push_back(collective);
  is_aborted() ? collective->on_abort() : begin_waiting();
  return std::unique_ptr<Work>(collective);
}

/// Begins as many collectives as there is memory for, in their order, which is the same at all
/// members: so the oldest that is not done has memory at each of them.
void UcxGroup::begin_waiting() {
  if (std::exchange(is_beginning_, true)) return;  // one that ends at once lets this loop go on
  while (!is_aborted() && first_waiting_ < waiting_.size()) {
    Collective& next = *waiting_[first_waiting_];
    const std::size_t bytes = next.needed_bytes();
    if (bytes > 0 && free_slots_.empty()) break;
    ++first_waiting_;
    next.begin(bytes > 0 ? take_slots(bytes) : nullptr);
  }
  if (first_waiting_ == waiting_.size()) {
    waiting_.clear();
    first_waiting_ = 0;
  }
  is_beginning_ = false;
}

/// All slots grow at once, so that later steps, in which other collectives meet, allocate nothing.
void UcxGroup::enlarge_slots(std::size_t bytes) {
  if (bytes <= slots_bytes_) return;
  slots_bytes_ = bytes;
  for (auto& slots : free_slots_) slots = hub_.allocate(bytes, shares_memory_);
}

std::shared_ptr<SlotMemory> UcxGroup::take_slots(std::size_t bytes) {
  enlarge_slots(bytes);
  std::shared_ptr<SlotMemory> slots = std::move(free_slots_.back());  // still in caches
  free_slots_.pop_back();
  return slots;
}

void UcxGroup::give_slots_back(std::shared_ptr<SlotMemory> slots) {
  if (slots->bytes() < slots_bytes_) slots = hub_.allocate(slots_bytes_, shares_memory_);
  free_slots_.push_back(std::move(slots));
}

std::int64_t UcxGroup::bytes() const {
  const std::lock_guard lock(hub_.worker());
  std::size_t bytes = 0;
  for (const auto& slots : free_slots_) bytes += slots ? slots->bytes() : 0;
  for (const auto& collective : collectives_)
    bytes += collective->staging_bytes() + (collective->slots() ? collective->slots()->bytes() : 0);
  return static_cast<std::int64_t>(bytes);
}

// --- waiting

std::optional<Collective::Job> UcxGroup::begin_job() {
  if (is_aborted()) return std::nullopt;
  for (Collective* collective : active_)
    if (const auto job = collective->begin_job()) return job;
  return std::nullopt;
}

void UcxGroup::offer_work() {
  hub_.worker().offer_work();
  hub_.worker().notify();
}

void UcxGroup::on_over(Collective& collective) {
  OperationRecord* record = hub_.recorder().find(collective.record());
  if (record && collective.is_finished()) record->finished_s = unix_time();
  hub_.worker().notify();
  if (!collective.is_finished()) return;
  if (collective.slots()) give_slots_back(collective.take_slots());
  begin_waiting();
}

void UcxGroup::wait_for(Collective& collective) {
  std::unique_lock lock(hub_.worker());
  if (!collective.done()) {
    const GroupHub::Helper helper(hub_);
    NamedWait wait(hub_.board(), collective.note());
    while (!collective.done()) {
      if (hub_.do_job(lock)) continue;
      wait.update(collective.note());
      if (const auto text = wait.overdue()) {
        fail(*text);
      } else {
        hub_.worker().wait(wait.deadline());
      }
    }
  }
  if (is_aborted()) throw Error(ErrorKind::unavailable, aborted_);
}

void UcxGroup::announce() {
  const std::lock_guard lock(hub_.worker());
  hub_.worker().notify();
}

void UcxGroup::take_back(Collective& collective) {
  const std::lock_guard lock(hub_.worker());
  if (!collective.is_finished())
    fail(fmt::format("{} {} of group \"{}\" was dropped before it was done",
                     name_of(collective.operation()), collective.sequence(), name_));
  while (!collective.done()) hub_.worker().wait(Clock::time_point::max());
  std::erase(active_, &collective);
  if (collective.is_held())
    leave(collective);
  else
    idle_.push_back(&collective);
}

/// The hub keeps the collective, because over shared memory UCX 1.13 does not end a rendezvous with
/// a process that died within it.
void UcxGroup::leave(Collective& collective) {
  const auto found =
      std::ranges::find_if(collectives_, [&](const auto& own) { return own.get() == &collective; });
  collective.leave_group();
  hub_.keep(std::move(*found));
  collectives_.erase(found);
}

// --- the end

void UcxGroup::abort(const std::string& reason) {
  const std::lock_guard lock(hub_.worker());
  fail(fmt::format("group \"{}\" was aborted: {}", name_, reason));
}

std::string UcxGroup::fault() const {
  const std::lock_guard lock(hub_.worker());
  return aborted_;
}

void UcxGroup::on_peer_lost(int rank, const std::string& why) {
  if (std::ranges::find(ranks_, rank) != ranks_.end())
    fail(fmt::format("group \"{}\": the connection to rank {} is lost: {}", name_,
                     hub_.board().rank_of(rank), why));
}

void UcxGroup::fail(const std::string& reason) {
  if (is_aborted()) return;
  aborted_ = reason;
  requests_.clear();
  for (Collective* collective : active_) {
    OperationRecord* record = hub_.recorder().find(collective->record());
    if (record && !collective->is_finished())
      for (const int process : collective->note().missing)
        record->missing.push_back(hub_.board().rank_of(process));
    collective->on_abort();
  }
  hub_.worker().notify();
}

}  // namespace troupe::transport
