#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "transport/memory/file_descriptor.h"
#include "transport/memory/slot_memory.h"

namespace troupe::transport {

/// Hands descriptors of this process to processes of the same user that know their names, through a
/// socket that has no file and ends with the process. Processes of other networks, as some
/// containers make them, do not find it. Thread-safe; a thread of its own answers.
class DescriptorOffers {
 public:
  DescriptorOffers();
  DescriptorOffers(const DescriptorOffers&) = delete;
  DescriptorOffers& operator=(const DescriptorOffers&) = delete;
  ~DescriptorOffers();

  /// Offers a descriptor until withdraw(); the caller keeps it open. SegmentName::kNone if the
  /// system gives no socket.
  SegmentName offer(int descriptor);
  /// Once it returns nobody gets the descriptor any more.
  void withdraw(const SegmentName& name);

 private:
  void answer_all();
  void answer(const FileDescriptor& connection);

  std::int64_t id_ = SegmentName::kNone;  // what the socket's name follows from
  FileDescriptor socket_, wake_;
  std::mutex mutex_;                      // guards offered_
  std::map<std::uint64_t, int> offered_;  // by nonce
  std::thread thread_;
};

/// A descriptor that another process offers, or this one. None if there is no such offer, or nobody
/// answers within seconds.
std::optional<FileDescriptor> fetch_descriptor(const SegmentName& name);

}  // namespace troupe::transport
