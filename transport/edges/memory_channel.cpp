#include "transport/edges/memory_channel.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tensor/errors/error.h"
#include "transport/edges/edge_channel.h"

namespace troupe::transport {
namespace {

/// Offset of the first field in a header, after the segment table and the root pointer.
constexpr std::size_t kFirstField = 16;

/// A message between two ranks: a control header, or a tensor in a buffer that is still the
/// sender's.
struct Parcel {
  HeaderBytes header;
  std::size_t header_bytes = 0;
  OutgoingTensor* tensor = nullptr;
};

/// Faults and messages held back on the way from one rank to another.
struct Line {
  bool blocked = false;
  bool drop = false;
  bool duplicate = false;
  bool delay = false;
  bool damage = false;
  std::deque<Parcel> held;     ///< messages held back while the line is blocked
  std::optional<Parcel> late;  ///< a tensor held back until the next one was delivered
};

}  // namespace

class MemoryNetwork::Impl {
 public:
  Impl(int ranks, bool shares_memory);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    for (const auto& rank : ranks_) rank->channel->end();
  }

  Channel& channel(int rank) { return *ranks_.at(static_cast<std::size_t>(rank))->channel; }
  void block(int from, int to);
  void unblock(int from, int to);
  void set_fault(int from, int to, bool Line::*fault);
  void disconnect(int rank);
  void disconnect_after(int rank, int messages);
  void reconnect(int rank);

 private:
  class RankLink;
  struct Rank {
    WaitBoard board;
    std::unique_ptr<Link> link;
    std::unique_ptr<EdgeChannel> channel;
    bool connected = true;
    int messages_left = -1;  ///< until it is cut off; below 0: it is not
  };

  void cut(int rank);
  void count_message(int rank);
  void submit(int from, int to, Parcel parcel);
  void pass_faults(int from, int to, Line& line, Parcel parcel);
  void deliver(int to, const Parcel& parcel);
  void finish(int from, const Parcel& parcel);
  LinkEvents& events(int rank) { return ranks_[static_cast<std::size_t>(rank)]->channel->events(); }
  bool connected(int rank) const { return ranks_[static_cast<std::size_t>(rank)]->connected; }

  const bool shares_memory_;
  std::mutex mutex_;  ///< guards the channels of all ranks and all lines
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<std::pair<int, int>, Line> lines_;
};

class MemoryNetwork::Impl::RankLink : public Link {
 public:
  RankLink(Impl& network, int rank) : network_(network), rank_(rank) {}

  void lock() override { network_.mutex_.lock(); }
  void unlock() override { network_.mutex_.unlock(); }
  void wait(std::unique_lock<Link>&, Clock::time_point deadline) override {
    std::unique_lock<std::mutex> lock(network_.mutex_, std::adopt_lock);
    if (deadline == Clock::time_point::max()) {
      network_.changed_.wait(lock);
    } else {
      network_.changed_.wait_until(lock, deadline);
    }
    lock.release();
  }
  void notify() override { network_.changed_.notify_all(); }
  bool shares_memory_with(int) override { return network_.shares_memory_; }
  std::shared_ptr<SlotMemory> allocate(int, std::size_t bytes) override {
    return network_.shares_memory_ ? make_shared_slots(bytes) : make_private_slots(bytes);
  }
  std::unique_ptr<MappedSlots> map(int, const SegmentName& name, std::size_t bytes) override {
    return network_.shares_memory_ ? map_slots(name, bytes) : nullptr;
  }
  void send(int to, OutgoingTensor& tensor) override {
    network_.submit(rank_, to, {tensor.header, tensor.header_bytes, &tensor});
  }
  void send_control(int to, const Header& header) override {
    Parcel parcel;
    parcel.header_bytes = encode(header, parcel.header);
    network_.submit(rank_, to, parcel);
  }

 private:
  Impl& network_;
  int rank_;
};

MemoryNetwork::Impl::Impl(int ranks, bool shares_memory) : shares_memory_(shares_memory) {
  for (int i = 0; i < ranks; ++i) {
    auto rank = std::make_unique<Rank>();
    rank->link = std::make_unique<RankLink>(*this, i);
    rank->channel = std::make_unique<EdgeChannel>(*rank->link, rank->board);
    ranks_.push_back(std::move(rank));
  }
}

void MemoryNetwork::Impl::block(int from, int to) {
  const std::lock_guard lock(mutex_);
  lines_[{from, to}].blocked = true;
}

void MemoryNetwork::Impl::unblock(int from, int to) {
  const std::lock_guard lock(mutex_);
  Line& line = lines_[{from, to}];
  line.blocked = false;
  std::deque<Parcel> held;
  held.swap(line.held);
  for (const Parcel& parcel : held) pass_faults(from, to, line, parcel);
}

void MemoryNetwork::Impl::set_fault(int from, int to, bool Line::*fault) {
  const std::lock_guard lock(mutex_);
  lines_[{from, to}].*fault = true;
}

void MemoryNetwork::Impl::disconnect(int rank) {
  const std::lock_guard lock(mutex_);
  cut(rank);
}

void MemoryNetwork::Impl::disconnect_after(int rank, int messages) {
  const std::lock_guard lock(mutex_);
  ranks_.at(static_cast<std::size_t>(rank))->messages_left = messages;
}

void MemoryNetwork::Impl::count_message(int rank) {
  int& left = ranks_[static_cast<std::size_t>(rank)]->messages_left;
  if (left >= 0 && left-- == 0) cut(rank);
}

void MemoryNetwork::Impl::cut(int rank) {
  ranks_.at(static_cast<std::size_t>(rank))->connected = false;
  for (auto& [ends, line] : lines_) {
    if (ends.first != rank && ends.second != rank) continue;
    for (const Parcel& parcel : line.held) finish(ends.first, parcel);
    line.held.clear();
    if (line.late) finish(ends.first, *line.late);
    line.late.reset();
  }
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    if (i != rank) events(i).on_peer_lost(rank, "it was cut off");
    if (i != rank) events(rank).on_peer_lost(i, "this rank was cut off");
  }
}

void MemoryNetwork::Impl::reconnect(int rank) {
  const std::lock_guard lock(mutex_);
  ranks_.at(static_cast<std::size_t>(rank))->connected = true;
}

void MemoryNetwork::Impl::submit(int from, int to, Parcel parcel) {
  for (const int rank : {from, to}) count_message(rank);
  if (!connected(from) || !connected(to)) {
    finish(from, parcel);
    return events(from).on_peer_lost(to, "it was cut off");
  }
  Line& line = lines_[{from, to}];
  if (line.blocked) {
    line.held.push_back(parcel);
  } else {
    pass_faults(from, to, line, parcel);
  }
}

void MemoryNetwork::Impl::pass_faults(int from, int to, Line& line, Parcel parcel) {
  if (!parcel.tensor) return deliver(to, parcel);
  if (std::exchange(line.drop, false)) return finish(from, parcel);
  if (std::exchange(line.delay, false)) {
    line.late = parcel;
    return;
  }
  if (std::exchange(line.damage, false)) parcel.header[kFirstField] ^= std::byte{1};
  deliver(to, parcel);
  if (std::exchange(line.duplicate, false)) deliver(to, parcel);
  finish(from, parcel);
  if (line.late) {
    const Parcel late = *line.late;
    line.late.reset();
    deliver(to, late);
    finish(from, late);
  }
}

void MemoryNetwork::Impl::deliver(int to, const Parcel& parcel) {
  const auto header = decode({parcel.header.data(), parcel.header_bytes});
  if (!header) return events(to).on_unreadable(parcel.header_bytes);
  const std::size_t bytes = parcel.tensor ? parcel.tensor->payload_bytes : 0;
  IncomingTensor* slot = events(to).on_message(*header, bytes);
  if (!slot) return;
  std::memcpy(slot->data, parcel.tensor->payload, bytes);
  events(to).on_payload(*slot);
}

void MemoryNetwork::Impl::finish(int from, const Parcel& parcel) {
  if (parcel.tensor) events(from).on_departed(*parcel.tensor);
}

MemoryNetwork::MemoryNetwork(int ranks, bool shares_memory)
    : impl_(std::make_unique<Impl>(ranks, shares_memory)) {}
MemoryNetwork::~MemoryNetwork() = default;
Channel& MemoryNetwork::channel(int rank) {
  return impl_->channel(rank);
}
void MemoryNetwork::block(int from, int to) {
  impl_->block(from, to);
}
void MemoryNetwork::unblock(int from, int to) {
  impl_->unblock(from, to);
}
void MemoryNetwork::drop_next(int from, int to) {
  impl_->set_fault(from, to, &Line::drop);
}
void MemoryNetwork::duplicate_next(int from, int to) {
  impl_->set_fault(from, to, &Line::duplicate);
}
void MemoryNetwork::delay_next(int from, int to) {
  impl_->set_fault(from, to, &Line::delay);
}
void MemoryNetwork::damage_next(int from, int to) {
  impl_->set_fault(from, to, &Line::damage);
}
void MemoryNetwork::disconnect(int rank) {
  impl_->disconnect(rank);
}
void MemoryNetwork::disconnect_after(int rank, int messages) {
  impl_->disconnect_after(rank, messages);
}
void MemoryNetwork::reconnect(int rank) {
  impl_->reconnect(rank);
}

}  // namespace troupe::transport
