#pragma once

namespace troupe::test {

/// The driver's functions for memory that processes share, on a machine without a GPU: what
/// HostCudart's runtime finds of the driver. An allocation is memory of the host behind a
/// descriptor. Used by one thread at a time.
class HostDriverMemory {
 public:
  /// A driver with nothing allocated, and the settings below.
  static HostDriverMemory& reset();
  static HostDriverMemory& get();

  bool has_functions = true;  ///< or the driver is too old for them
  bool gives_access = true;   ///< or no GPU reaches what another one shares
  int allocations = 0;        ///< handles that are not released
  int mappings = 0;           ///< that are not unmapped
  int addresses = 0;          ///< reserved ranges that are not freed
};

}  // namespace troupe::test
