#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transport/collectives/call_witness.h"
#include "transport/collectives/collective.h"
#include "transport/collectives/group_hub.h"
#include "transport/memory/slot_memory.h"

namespace troupe::transport {

/// A group of hosts over UCX active messages. A member sends a part only after the other has asked
/// for it: no member runs ahead of the others, data that would come early takes no memory, and a
/// member that gives up has little under way. On one host a member writes its part into the other's
/// memory; else UCX carries it. UCX and other members never touch the caller's tensors, so an
/// aborted collective lets go of them at once. The group outlives the works it started. State is
/// guarded by the worker's lock.
class UcxGroup : public tensor::ProcessGroup, public CallWitness {
 public:
  /// `ranks` are in member order. The hub outlives the group.
  UcxGroup(GroupHub& hub, const GroupKey& key, const std::string& name, std::vector<int> ranks,
           int this_rank, const CollectiveMemory& room);
  ~UcxGroup() override;

  int size() const override { return static_cast<int>(ranks_.size()); }
  int member() const override { return member_; }
  std::unique_ptr<tensor::Work> start(tensor::Stream& stream, const CollectiveCall& call) override;
  void abort(const std::string& reason) override;
  std::string fault() const override;
  std::int64_t bytes() const override;
  void record(const CollectiveCall& call) override;
  void tell_calls() override;

  // The members below are for the hub and the collectives, with the worker's lock held.

  const GroupKey& key() const { return key_; }
  const std::string& name() const { return name_; }
  int rank_of(int member) const { return ranks_[static_cast<std::size_t>(member)]; }
  void on_request(const PartRequest& request);
  ucs_status_t on_data(const PartRequest& about, std::span<std::byte> payload, bool is_rendezvous);
  /// What another member has called by its device.
  void on_called(const PartRequest& about);
  void on_peer_lost(int rank, const std::string& why);
  /// Takes a job of any of the group's collectives. None if there is nothing to do.
  std::optional<Collective::Job> begin_job();
  /// Asks the other member for a part to receive.
  void ask_for(Collective& collective, GroupPart& part);
  /// Sends a part once the other member has asked for it.
  void offer(Collective& collective, GroupPart& part);
  /// Sends a part that has been copied to its slot.
  void send(Collective& collective, GroupPart& part);
  bool is_aborted() const { return !aborted_.empty(); }
  /// There is a job for any thread.
  void offer_work();
  /// Enters the collective's end in the flight recorder.
  void on_over(Collective& collective);

  // The members below are for the threads that hold a collective, without the lock.

  void wait_for(Collective& collective);
  /// Wakes all threads that wait for something of the link.
  void announce();
  /// Makes a collective free for the next call. After an abort UCX may still have requests of a
  /// connection, which it ends with the worker at the latest: the hub keeps the collective until
  /// then.
  void take_back(Collective& collective);

 private:
  void copy_own_part(const CollectiveCall& call) const;
  Collective* find(std::uint64_t sequence);
  OperationRecord record_of(const CollectiveCall& call, std::uint64_t sequence) const;
  std::vector<OperationRecord> called_by_device() const;
  int member_of(int rank) const;
  bool agree(const Collective& collective, const PartRequest& request);
  bool agree(const Collective& collective, const GroupPart& part, const PartRequest& about);
  void answer(Collective& collective, GroupPart& part, const PartRequest& request);
  Header header_of(const Collective& collective, const GroupPart& part, CollectiveKind kind) const;
  static void on_transfer_done(Transfer& transfer, bool ok);
  void fail(const std::string& reason);
  void leave(Collective& collective);
  void begin_waiting();
  void enlarge_slots(std::size_t bytes);
  std::shared_ptr<SlotMemory> take_slots(std::size_t bytes);
  void give_slots_back(std::shared_ptr<SlotMemory> slots);

  GroupHub& hub_;
  const GroupKey key_;
  const std::string name_;
  const std::vector<int> ranks_;
  const int member_;
  std::uint64_t next_sequence_ = 0;
  std::string aborted_;  ///< why it was aborted; empty if it was not
  MappedSegments segments_;
  std::vector<Collective::Owned> collectives_;
  std::vector<Collective*> idle_;      ///< collectives without a handle
  std::vector<Collective*> active_;    ///< collectives with a handle, in the order of their start
  std::vector<PartRequest> requests_;  ///< requests for parts that this member does not have yet
  std::vector<std::int64_t> counts_;   ///< of an even collective, while it starts
  /// Collectives in the order of their start; those from first_waiting_ on have not begun.
  std::vector<Collective*> waiting_;
  std::size_t first_waiting_ = 0;
  bool is_beginning_ = false;
  bool shares_memory_ = false;  ///< with any member, which are then those of this host
  /// Memory for parts to arrive in, shared with members on this host if possible: what no
  /// collective has now. Each has so many bytes; null while that is 0.
  std::vector<std::shared_ptr<SlotMemory>> free_slots_;
  std::size_t slots_bytes_ = 0;
};

}  // namespace troupe::transport
