#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/collectives/collective.h"
#include "transport/collectives/flight_recorder.h"
#include "transport/edges/link.h"
#include "transport/memory/slot_pool.h"
#include "transport/ucx/ucx_peers.h"
#include "transport/ucx/ucx_transfer.h"
#include "transport/ucx/ucx_worker.h"
#include "transport/wire/header.h"

namespace troupe::transport {

class UcxGroup;

/// Names a group of a configuration; equal at all members.
struct GroupKey {
  std::uint64_t run = 0;
  std::uint32_t configuration = 0;
  std::uint32_t id = 0;
  bool operator==(const GroupKey&) const = default;
};

/// A message of one member about a part, most often the request for it.
struct PartRequest {
  int sender = 0;  ///< rank of the member
  CollectiveMessage message;
};

/// The groups of a node. Hands them their messages, keeps requests for groups that this node has
/// not made yet, and drops messages of past groups. Hands the jobs of their collectives to the
/// threads that do them. Guarded by the worker's lock.
class GroupHub final : private BackgroundWork {
 public:
  /// All references outlive the hub.
  GroupHub(UcxWorker& worker, UcxPeers& peers, WaitBoard& board, LinkEvents& events,
           std::shared_ptr<SlotPool> slots);
  GroupHub(const GroupHub&) = delete;
  GroupHub& operator=(const GroupHub&) = delete;

  void start();

  UcxWorker& worker() { return worker_; }
  UcxPeers& peers() { return peers_; }
  WaitBoard& board() { return board_; }
  FlightRecorder& recorder() { return recorder_; }
  std::shared_ptr<SlotMemory> allocate(std::size_t bytes, bool shared) {
    return slots_->take(bytes, shared);
  }
  /// Does a job of any group, with the lock released meanwhile. False if there is none. Jobs of all
  /// groups, because members may wait for their collectives in different orders.
  bool do_job(std::unique_lock<UcxWorker>& lock);
  /// While it lives, the calling thread does the jobs, instead of the progress thread.
  class Helper {
   public:
    explicit Helper(GroupHub& hub) : hub_(hub) { hub_.worker_.begin_helping(); }
    ~Helper() { hub_.worker_.end_helping(); }
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;

   private:
    GroupHub& hub_;
  };
  /// Sends a header without a payload.
  void send_control(ucp_ep_h endpoint, const Header& header);

  /// From now on the group gets its messages, first the requests that came early.
  void add(UcxGroup& group);
  void remove(UcxGroup& group);
  void on_peer_lost(int rank, const std::string& why);
  /// Keeps a collective that UCX still has requests of until the hub is destroyed, after UCX's
  /// worker.
  void keep(Collective::Owned collective) { left_.push_back(std::move(collective)); }

 private:
  struct Early {
    GroupKey key;
    PartRequest request;
  };
  static ucs_status_t on_message(void* hub, const void* header, std::size_t header_length,
                                 void* data, std::size_t length, const ucp_am_recv_param_t* param);
  ucs_status_t take(std::span<const std::byte> header, std::span<std::byte> payload,
                    bool is_rendezvous);
  UcxGroup* find(const GroupKey& key);
  std::optional<Collective::Job> begin_job();
  bool begin() override;
  void run() override { Collective::run(*background_job_); }
  void end() override { Collective::end(*background_job_); }
  bool is_past(const GroupKey& key) const;

  UcxWorker& worker_;
  UcxPeers& peers_;
  WaitBoard& board_;
  LinkEvents& events_;
  const std::shared_ptr<SlotPool> slots_;  ///< shared with the edges of the node
  FlightRecorder recorder_;
  std::vector<UcxGroup*> groups_;
  std::optional<Collective::Job> background_job_;  ///< the progress thread's job
  std::vector<Collective::Owned> left_;
  std::vector<GroupKey> ended_;  ///< groups of the newest configuration that were destroyed
  GroupKey newest_;  ///< run and configuration of the newest group; the id means nothing
  std::vector<Early> early_;
  UcxControl control_{MessageId::group};
};

}  // namespace troupe::transport
