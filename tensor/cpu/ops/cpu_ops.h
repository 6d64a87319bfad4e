#pragma once

#include <cstddef>

#include "tensor/device/device.h"
#include "tensor/device/ops.h"

namespace troupe::tensor {

/// The ops on the host: Highway kernels on contiguous ranges of rows or elements, one range per
/// OpenMP thread. The methods of one family are in one file, beside their kernels.
class CpuOps final : public Ops {
 public:
  CpuOps(Device& device, int threads) : device_(device), threads_(threads) {}

 private:
  TROUPE_OPS(TROUPE_DECLARE_OP)

  /// Memory for `elements` float32 of arbitrary content; it grows with the largest request.
  float* scratch(std::int64_t elements);

  Device& device_;
  const int threads_;
  Buffer scratch_;
};

}  // namespace troupe::tensor
