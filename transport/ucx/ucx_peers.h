#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/ucx/sent_bytes.h"
#include "transport/ucx/ucx_worker.h"

namespace troupe::transport {

/// The endpoints of a worker, by rank, all in UCX's peer error mode. Guarded by the worker's lock.
class UcxPeers {
 public:
  /// Called once for each connection that ends, from inside UCX or disconnect().
  using OnLost = std::function<void(int rank, const std::string& why)>;

  UcxPeers(UcxWorker& worker, OnLost on_lost) : worker_(worker), on_lost_(std::move(on_lost)) {}
  ~UcxPeers();

  /// Connects to a rank. Replaces a connection to another incarnation or address; keeps one to the
  /// same that still works. Throws Error{unavailable}.
  void connect(int rank, std::uint64_t incarnation, const std::string& address, bool on_this_host);
  /// Forgets the rank. Transfers under way to it end with an error, some of them in later calls of
  /// UCX.
  void disconnect(int rank);
  /// The endpoint of a rank; null if there is no connection, or it has failed.
  ucp_ep_h endpoint(int rank) const;
  /// Whether the rank and this process can write into each other's memory: both are on one host,
  /// which gives shared memory. False for a rank that is not connected.
  bool share_memory_with(int rank) const;
  /// Counts what is sent to a connected rank.
  void count_sent(int rank, std::size_t bytes);
  const SentBytes& sent() const { return sent_; }

 private:
  struct Peer {
    UcxPeers* owner = nullptr;
    int rank = 0;
    std::uint64_t incarnation = 0;
    std::string address;
    bool on_this_host = true;
    ucp_ep_h endpoint = nullptr;
    bool connecting = false;  ///< UCX still exchanges its own messages with the peer
    bool failed = false;
  };
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  void watch_connecting(Peer& peer);
  void close(std::unique_ptr<Peer> peer);

  UcxWorker& worker_;
  OnLost on_lost_;
  std::map<int, std::unique_ptr<Peer>> peers_;
  SentBytes sent_;
  /// Peers whose endpoints UCX did not close in time; it may still call on_error for them.
  std::vector<std::unique_ptr<Peer>> unclosed_;
};

}  // namespace troupe::transport
