#pragma once

#include <memory>
#include <string>

#include "transport/edges/channel.h"

namespace troupe::transport {

/// Channels of several ranks in one process, with faults on request: for tests. Messages are
/// delivered in the sender's thread, so that an order of events can be scripted exactly; headers
/// are encoded and decoded on the way. Thread-safe.
class MemoryNetwork {
 public:
  /// `shares_memory`: senders map the slots of receivers, as processes of one host do.
  explicit MemoryNetwork(int ranks, bool shares_memory = false);
  ~MemoryNetwork();

  /// The channel of a rank, which lives as long as the network.
  Channel& channel(int rank);

  /// Holds back all that `from` sends to `to`, until unblock() delivers it in order.
  void block(int from, int to);
  void unblock(int from, int to);
  /// Loses the next tensor that `from` sends to `to`.
  void drop_next(int from, int to);
  /// Delivers the next tensor that `from` sends to `to` twice.
  void duplicate_next(int from, int to);
  /// Delivers the next tensor that `from` sends to `to` after the one that follows it.
  void delay_next(int from, int to);
  /// Changes one byte in the header of the next tensor that `from` sends to `to`.
  void damage_next(int from, int to);
  /// Cuts a rank off, as if its process had died: what is under way from and to it is lost, and its
  /// neighbours learn of it.
  void disconnect(int rank);
  /// Cuts a rank off in the place of the message from or to it that follows so many others; below
  /// 0: never.
  void disconnect_after(int rank, int messages);
  /// Starts a new life of a rank that was cut off: its channel may be opened again.
  void reconnect(int rank);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::transport
