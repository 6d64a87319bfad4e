#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "tensor/device.h"
#include "tensor/process_group.h"
#include "transport/link.h"
#include "transport/ucx/ucx_worker.h"

namespace troupe::transport {

class UcxGroup;

enum class Operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast
};
/// "all-reduce".
const char* name_of(Operation operation);

/// A block of bytes between this member and another; both know its number and size beforehand.
struct Part : Transfer {
  enum class Kind : std::uint8_t { send, receive };
  /// A part to send is waiting -> ready -> started (the other member has asked for it) -> done; a
  /// part to receive is waiting (this member has asked for it) -> started -> done.
  enum class State : std::uint8_t { waiting, ready, started, done };
  Kind kind = Kind::send;
  State state = State::waiting;
  int member = 0;            ///< the other member
  std::uint32_t number = 0;  ///< 2 * round + phase, the same at both members
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  HeaderBytes header;
};

/// One started collective of a group, and the handle its caller holds. Sums run in rounds: in each,
/// every member owns a piece of its slice; phase 0 brings the members' values of a piece to its
/// owner, which adds them in member order, phase 1 brings the sum back. A small all-reduce is
/// gathered and added by every member instead. Other collectives have one round and no sum. Sums
/// are computed by a thread that waits; all else is guarded by the worker's lock. The group owns
/// its collectives and reuses them: deleting a handle returns the collective to the group.
class Collective : public tensor::Work {
 public:
  struct Call {
    Operation operation = Operation::all_reduce;
    tensor::Tensor in;
    tensor::Tensor out;
    int root = 0;
  };

  explicit Collective(UcxGroup& group) : group_(&group) {}
  bool done() const override;
  void wait() override;
  static void operator delete(Collective* self, std::destroying_delete_t);
  /// Destroys a collective for the group, which operator delete does not.
  struct Destroy {
    void operator()(Collective* collective) const;
  };
  using Owned = std::unique_ptr<Collective, Destroy>;

  // The members below are for the group.

  void start(const Call& call, std::uint64_t sequence);
  /// Takes the collective out of its group: from now on it only waits for UCX to let go of its
  /// memory.
  void leave_group() { group_ = nullptr; }
  bool has_group() const { return group_ != nullptr; }
  UcxGroup& group() { return *group_; }
  std::uint64_t sequence() const { return sequence_; }
  Operation operation() const { return call_.operation; }
  bool is_finished() const { return rounds_left_ == 0; }
  /// The part that a message from `member` is about; null if there is none in this state.
  Part* find(Part::Kind kind, Part::State state, int member, std::uint32_t number);
  /// Adds up one complete set of values, with the lock released meanwhile. False if there is none.
  bool add_up(std::unique_lock<UcxWorker>& lock);
  void on_part_done(Part& part);
  /// The wait for this collective, with the members that have yet to send or fetch something.
  WaitNote note() const;
  /// The other member of each transfer that UCX has under way.
  std::vector<int> members_under_way() const;

 private:
  struct Round {
    enum class State : std::uint8_t { idle, gathering, adding, spreading };
    State state = State::idle;
    std::uint32_t index = 0;
    std::vector<Part> parts;                 ///< reserved at once: transfers point to them
    std::vector<const std::byte*> summands;  ///< by member; empty if this member adds nothing
    std::byte* sum = nullptr;
    std::size_t sum_elements = 0;
    tensor::Buffer scratch;
  };
  struct Piece {
    std::size_t begin = 0;  ///< first element
    std::size_t size = 0;   ///< in elements; 0 past the end of the slice
  };

  // Planning of each operation, in collective_plan.cpp.
  std::uint32_t num_rounds() const;
  void plan(Round& round);
  void plan_all_gather(Round& round);
  void plan_all_to_all(Round& round);
  void plan_broadcast(Round& round);
  void plan_gathered_sum(Round& round);
  void plan_sliced_sum(Round& round);
  void add_part(Round& round, Part::Kind kind, int phase, int member, std::byte* data,
                std::size_t bytes);
  Piece piece(int slice, std::uint32_t round) const;
  std::byte* scratch(Round& round, std::size_t bytes);

  void launch(Round& round);
  void offer_parts(Round& round, std::uint32_t phase);
  void settle(Round& round);
  static bool is_ready_to_add(const Round& round);

  UcxGroup* group_;
  Call call_;
  std::uint64_t sequence_ = 0;
  std::uint32_t next_round_ = 0;
  std::uint32_t rounds_left_ = 0;
  std::array<Round, 2> rounds_;  ///< two, so that one gathers while the other is added up
};

}  // namespace troupe::transport
