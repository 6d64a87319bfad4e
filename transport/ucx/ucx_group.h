#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/collective.h"
#include "transport/group_hub.h"

namespace troupe::transport {

/// A group of hosts over UCX active messages. A member sends a part only after the other has asked
/// for it: no member runs ahead of the others, data that would come early takes no memory, and a
/// member that gives up has little under way. The group outlives the works it started. State is
/// guarded by the worker's lock.
class UcxGroup : public tensor::ProcessGroup {
 public:
  /// `ranks` are in member order. The hub outlives the group.
  UcxGroup(GroupHub& hub, const GroupKey& key, const std::string& name, std::vector<int> ranks,
           int this_rank);
  ~UcxGroup() override;

  int size() const override { return static_cast<int>(ranks_.size()); }
  int member() const override { return member_; }
  std::unique_ptr<tensor::Work> all_reduce(const tensor::Tensor& x) override;
  std::unique_ptr<tensor::Work> all_gather(const tensor::Tensor& in,
                                           const tensor::Tensor& out) override;
  std::unique_ptr<tensor::Work> reduce_scatter(const tensor::Tensor& in,
                                               const tensor::Tensor& out) override;
  std::unique_ptr<tensor::Work> all_to_all(const tensor::Tensor& in,
                                           const tensor::Tensor& out) override;
  std::unique_ptr<tensor::Work> broadcast(const tensor::Tensor& x, int root) override;
  void abort(const std::string& reason) override;

  // The members below are for the hub and the collectives, with the worker's lock held.

  const GroupKey& key() const { return key_; }
  const std::string& name() const { return name_; }
  int rank_of(int member) const { return ranks_[static_cast<std::size_t>(member)]; }
  void on_request(const PartRequest& request);
  ucs_status_t on_data(const PartRequest& about, std::span<std::byte> payload, bool is_rendezvous);
  void on_peer_lost(int rank, const std::string& why);
  /// Asks the other member for a part to receive.
  void ask_for(Collective& collective, Part& part);
  /// Sends a part once the other member has asked for it.
  void offer(Collective& collective, Part& part);
  bool is_aborted() const { return !aborted_.empty(); }
  void notify() { hub_.worker().notify(); }

  // The members below are for the threads that hold a collective, without the lock.

  bool poll(const Collective& collective);
  void wait_for(Collective& collective);
  /// Makes a collective free for the next call. After an abort UCX may still have requests of a
  /// closed connection, which it ends with the worker at the latest: the hub keeps the collective
  /// until then.
  void take_back(Collective& collective);

 private:
  std::unique_ptr<tensor::Work> start(const Collective::Call& call);
  Collective* find(std::uint64_t sequence);
  int member_of(int rank) const;
  bool agree(const Collective& collective, const PartRequest& request);
  bool agree(const Collective& collective, const Part& part, int sender, std::uint64_t bytes);
  void send(Collective& collective, Part& part);
  Header header_of(const Collective& collective, const Part& part, CollectiveKind kind) const;
  static void on_transfer_done(Transfer& transfer, bool ok);
  /// Adds up one complete set of values of any collective, which only a waiting thread does. False
  /// if there is none.
  bool add_up(std::unique_lock<UcxWorker>& lock);
  void fail(const std::string& reason);
  void leave(Collective& collective);
  /// Waits until no connected member uses memory of the collective any more; disconnects members
  /// that use it for too long.
  void drain(const Collective& collective);
  bool is_held(const Collective& collective) const;

  GroupHub& hub_;
  const GroupKey key_;
  const std::string name_;
  const std::vector<int> ranks_;
  const int member_;
  std::uint64_t next_sequence_ = 0;
  std::string aborted_;  ///< why it was aborted; empty if it was not
  std::vector<Collective::Owned> collectives_;
  std::vector<Collective*> idle_;      ///< collectives without a handle
  std::vector<Collective*> active_;    ///< collectives with a handle, in the order of their start
  std::vector<PartRequest> requests_;  ///< requests for parts that this member does not have yet
};

}  // namespace troupe::transport
