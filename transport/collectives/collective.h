#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/device/process_group.h"
#include "transport/collectives/collective_memory.h"
#include "transport/edges/link.h"
#include "transport/memory/slot_memory.h"
#include "transport/wire/tensor_row.h"

namespace troupe::transport {

class UcxGroup;

using tensor::CollectiveCall;
using tensor::Operation;

/// Whether the operation adds, or takes a maximum.
bool reduces(Operation operation);

/// A block of bytes between this member and another; both know its number and size beforehand.
struct GroupPart : Transfer {
  enum class Kind : std::uint8_t { send, receive };
  /// A part to send is waiting -> ready -> asked (by the other member) -> copying -> started (UCX
  /// carries it; not if it was written into the other's memory) -> done. A part to receive is
  /// waiting (this member has asked) -> started -> arrived -> copying -> done; one that is reduced
  /// is done when it arrives.
  enum class State : std::uint8_t { waiting, ready, asked, copying, started, arrived, done };
  Kind kind = Kind::send;
  State state = State::waiting;
  int member = 0;             ///< the other member
  std::uint32_t number = 0;   ///< 2 * round + phase, the same at both members
  ElementRange piece;         ///< elements of the collective's input or output
  std::byte* slot = nullptr;  ///< where a send is copied to, or a receive arrives
  bool is_written = false;    ///< a send's slot lies in the other member's memory
  std::size_t bytes = 0;
  HeaderBytes header;

  std::uint32_t phase() const { return number % 2; }
};

/// One started collective of a group, and the handle its caller holds.
///
/// It runs in rounds, each with a piece of what every two members have for each other, small enough
/// to stay in a processor's cache. A piece to receive lands in a slot of this member's shared
/// memory (or is carried there by UCX), and is reduced or copied from there. A reduction has two
/// phases: phase 0 brings the members' values of a piece to its owner, which reduces them in member
/// order; phase 1 brings the result back. A small all-reduce is gathered and reduced by every
/// member instead.
///
/// Copies and reductions are jobs: a thread that waits for a collective does them, else the
/// progress thread, without the worker's lock; a small one is done at once. All else is guarded by
/// the lock. The group owns its collectives and reuses them: deleting a handle returns the
/// collective to the group.
class Collective : public NamedWork {
  struct Round;

 public:
  explicit Collective(UcxGroup& group) : group_(&group) {}
  bool done() const override { return over_.load(std::memory_order_acquire); }
  Stage stage() const override { return done() ? Stage::done : Stage::among_hosts; }
  void wait() override;
  void wait(tensor::Stream&) override { wait(); }
  double finished_s() const override { return finished_s_; }
  bool failed() const override { return failed_; }
  void announce() override;
  static void operator delete(Collective* self, std::destroying_delete_t);
  /// Destroys a collective for the group, which operator delete does not.
  struct Destroy {
    void operator()(Collective* collective) const;
  };
  using Owned = std::unique_ptr<Collective, Destroy>;

  // The members below are for the group, with the worker's lock held.

  /// Takes a call, which begins later. `in` and the counts are given, also of one that is in place
  /// or even.
  void start(const CollectiveCall& call, std::uint64_t sequence);
  /// Bytes of the slots that it needs; 0: none.
  std::size_t needed_bytes() const;
  /// Begins to run, with slots of at least needed_bytes().
  void begin(std::shared_ptr<SlotMemory> slots);
  /// Takes the slots of a collective that is finished.
  std::shared_ptr<SlotMemory> take_slots() { return std::move(slots_); }
  /// Bytes that it holds beside its slots.
  std::size_t staging_bytes() const;
  /// Takes the collective out of its group: from now on it only waits for UCX to let go of its
  /// memory.
  void leave_group() { group_ = nullptr; }
  bool has_group() const { return group_ != nullptr; }
  UcxGroup& group() { return *group_; }
  std::uint64_t sequence() const { return sequence_; }
  Operation operation() const { return operation_; }
  tensor::DType dtype() const { return dtype_; }
  tensor::Reduction reduction() const { return reduction_; }
  /// Number of the collective in the flight recorder.
  std::uint64_t record() const { return record_; }
  void set_record(std::uint64_t record) { record_ = record; }
  bool is_finished() const { return rounds_left_ == 0; }
  /// Whether UCX still uses the collective's memory.
  bool is_held() const;
  /// The memory in which parts arrive.
  const SlotMemory* slots() const { return slots_.get(); }
  /// The part that a message from `member` is about; null if there is none in this state.
  GroupPart* find(GroupPart::Kind kind, GroupPart::State state, int member, std::uint32_t number);
  /// The other member has asked for a part. `slot` is its memory for it; null: UCX carries it.
  void on_asked(GroupPart& part, std::byte* slot);
  void on_arrived(GroupPart& part);
  void on_sent(GroupPart& part);
  /// The group was aborted: no more happens, but a job may still be running.
  void on_abort() { update_over(); }
  /// The wait for this collective, with the members that have yet to send or fetch something.
  WaitNote note() const override;

  /// A copy of one part, or the reduction of a round if there is no part.
  struct Job {
    Collective* collective = nullptr;
    Round* round = nullptr;
    GroupPart* part = nullptr;
  };
  /// Takes a job that nobody else does then. None if there is nothing to do yet.
  std::optional<Job> begin_job();
  /// Does a job, without the worker's lock.
  static void run(const Job& job);
  /// Goes on with what the job has made possible.
  static void end(const Job& job);

 private:
  struct Round {
    bool is_live = false;  ///< it has been launched, and is not over
    bool is_reducing = false;
    bool is_reduced = false;
    std::uint32_t index = 0;
    std::size_t num_slots = 0;     ///< that its parts have
    ElementRange own;              ///< elements of the input that this member reduces
    std::byte* result = nullptr;   ///< where the reduced elements go; null: to their own place
    std::vector<GroupPart> parts;  ///< reserved at once: transfers point to them
    std::vector<const std::byte*> summands;  ///< by member; this member's own is not in it
    std::vector<const std::byte*> shares;    ///< what a reduction of one tensor's elements reads
    tensor::Buffer staging;                  ///< parts that UCX carries are copied here first
  };
  /// What this member and another have for each other, by phase, before it is cut into rounds.
  struct Flow {
    std::array<ElementRange, 2> sends;
    std::array<ElementRange, 2> receives;
  };

  // What each operation exchanges, in collective_plan.cpp.
  void plan(const CollectiveCall& call);
  void plan_all_reduce();
  /// Without counts, this member sends all to each other one, or receives what it reduces.
  void plan_blocks(std::span<const std::int64_t> send_counts,
                   std::span<const std::int64_t> receive_counts);
  void plan_broadcast(int root);

  std::size_t most_elements() const;
  void launch(Round& round);
  void add_part(Round& round, GroupPart::Kind kind, std::uint32_t phase, int member,
                ElementRange piece);
  std::size_t num_receives() const;
  ElementRange cut(ElementRange piece, std::uint32_t round) const;
  bool is_summand(const GroupPart& part) const;
  Round& round_of(const GroupPart& part);
  void offer_parts(Round& round, std::uint32_t phase);
  void advance(Round& round);
  void complete(const Job& job);
  bool is_over(const Round& round) const;
  bool can_reduce(const Round& round) const;
  std::optional<Job> next_job(Round& round);
  std::size_t bytes_of(const Job& job) const;
  void begin(const Job& job);
  void reduce(Round& round) const;
  void update_over();

  UcxGroup* group_;
  Operation operation_ = Operation::all_reduce;
  tensor::Reduction reduction_ = tensor::Reduction::sum;
  tensor::DType dtype_ = tensor::DType::f32;
  TensorRow in_, out_;
  std::vector<Flow> flows_;   ///< by member
  ElementRange own_;          ///< elements of the input that this member reduces
  bool is_gathered_ = false;  ///< every member reduces all elements
  bool widens_ = false;       ///< bfloat16 is reduced into float32
  std::uint64_t sequence_ = 0;
  std::uint64_t record_ = 0;
  std::size_t slot_bytes_ = 0;  ///< between two slots
  std::size_t receives_ = 0;    ///< pieces that arrive in a full round
  std::size_t step_ = 0;        ///< elements of a full piece
  std::uint32_t num_rounds_ = 0;
  std::uint32_t next_round_ = 0;
  std::uint32_t rounds_left_ = 0;
  int running_jobs_ = 0;
  double finished_s_ = 0;              ///< written before over_ is set
  bool failed_ = false;                ///< the same
  std::atomic<bool> over_{false};      ///< finished or aborted, and no job runs any more
  std::shared_ptr<SlotMemory> slots_;  ///< of the group, from begin() to the end
  std::array<Round, kRoundsAtOnce> rounds_;
};

}  // namespace troupe::transport
