#pragma once

#include <cstddef>
#include <string>
#include <thread>

#include "transport/memory/file_descriptor.h"

namespace troupe::transport {

/// Lets processes of one user on one machine have one memory for bytes that all of them only read,
/// under a name that says which bytes these are. One that has them offers them for as long as this
/// object lives; those who have taken them keep them whatever becomes of it. Processes that do not
/// find each other have memory of their own.
class SharedPages {
 public:
  /// Whether the bytes can be shared: whole pages of an allocation of their own.
  static bool can_share(const void* data, std::size_t bytes);
  /// Memory for these bytes, which outlives this object's calls.
  SharedPages(const std::string& name, void* data, std::size_t bytes)
      : name_(name), data_(data), bytes_(bytes) {}
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  ~SharedPages();

  /// Puts the bytes that another process offers in the place of these, whose pages are given back.
  /// They must not be written any more. False if nobody offers as many.
  bool take();
  /// Offers these bytes, which must not be written any more, or takes those that another process
  /// has offered meanwhile. Does nothing if the system cannot.
  void give();
  /// Offers what was taken, if nobody does any more.
  void offer();

 private:
  void answer_all();

  const std::string name_;
  void* const data_;
  const std::size_t bytes_;
  FileDescriptor memory_, socket_, wake_;
  std::thread thread_;
};

}  // namespace troupe::transport
