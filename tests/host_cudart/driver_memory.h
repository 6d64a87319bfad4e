#pragma once

#include <atomic>

namespace troupe::test {

/// The driver's functions for memory that processes share, on a machine without a GPU: what
/// HostCudart's runtime finds of the driver. An allocation is memory of the host behind a
/// descriptor. Any threads may call the functions.
class HostDriverMemory {
 public:
  /// A driver with nothing allocated, and the settings below; while no other thread calls.
  static HostDriverMemory& reset();
  static HostDriverMemory& get();

  std::atomic<int> allocations = 0;  ///< handles that are not released
  std::atomic<int> mappings = 0;     ///< that are not unmapped
  std::atomic<int> addresses = 0;    ///< reserved ranges that are not freed

  // Settings, for as long as no other thread calls.
  bool has_functions = true;  ///< or the driver is too old for them
  bool gives_access = true;   ///< or no GPU reaches what another one shares
};

}  // namespace troupe::test
