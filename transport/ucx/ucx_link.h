#pragma once

#include <memory>
#include <utility>

#include "transport/edges/link.h"
#include "transport/memory/slot_pool.h"
#include "transport/ucx/ucx_peers.h"
#include "transport/ucx/ucx_transfer.h"
#include "transport/ucx/ucx_worker.h"

namespace troupe::transport {

/// Edges over UCX active messages. In its peer error mode UCX 1.13 has no single-copy path over
/// shared memory, so senders on the same host write into the receiver's slots themselves and send a
/// header without a payload.
class UcxLink : public Link {
 public:
  /// Worker and peers outlive the link.
  UcxLink(UcxWorker& worker, UcxPeers& peers, std::shared_ptr<SlotPool> pool)
      : worker_(worker), peers_(peers), pool_(std::move(pool)) {}
  /// Reports messages to `events` from now on.
  void start(LinkEvents& events);

  void lock() override { worker_.lock(); }
  void unlock() override { worker_.unlock(); }
  void wait(std::unique_lock<Link>&, Clock::time_point deadline) override {
    worker_.wait(deadline);
  }
  void notify() override { worker_.notify(); }
  bool shares_memory_with(int peer) override { return peers_.share_memory_with(peer); }
  std::shared_ptr<SlotMemory> allocate(int sender, std::size_t bytes) override;
  std::unique_ptr<MappedSlots> map(int receiver, const SegmentName& name,
                                   std::size_t bytes) override;
  void send(int to, OutgoingTensor& tensor) override;
  void send_control(int to, const Header& header) override;

 private:
  static ucs_status_t on_message(void* link, const void* header, std::size_t header_length,
                                 void* data, std::size_t length, const ucp_am_recv_param_t* param);
  ucs_status_t receive(std::span<const std::byte> header, std::span<std::byte> payload,
                       bool is_rendezvous);

  UcxWorker& worker_;
  UcxPeers& peers_;
  const std::shared_ptr<SlotPool> pool_;
  LinkEvents* events_ = nullptr;
  UcxControl control_{MessageId::edge};
};

}  // namespace troupe::transport
