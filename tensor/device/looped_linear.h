#pragma once

#include <memory>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/device/grouped_linear.h"

namespace troupe::tensor {

/// The grouped products of a device that has none of its own, as calls of one of its linear layers.
/// Their numbers of rows are powers of two, because a linear layer prepares each of its numbers: a
/// group's rows are multiplied in such blocks, the largest first. Each call copies the offsets to
/// the host, and waits for them, where the host cannot read the device's memory: a GPU idles
/// meanwhile. A kernel that reads offsets where they lie would not, but cuBLASLt's grouped products
/// want them on the host as well.
class LoopedLinear final : public GroupedLinear {
 public:
  LoopedLinear(Device& device, const GroupedLinearShape& shape);

  std::size_t packed_bytes() const override;
  ScratchBytes scratch_bytes() const override { return linear_->scratch_bytes(); }
  void set_scratch(const Scratch& scratch) override { linear_->set_scratch(scratch); }
  void pack(Stream& stream, const Tensor& w, void* packed) override;
  Tensor packed_copy(void* packed) const override;
  void forward(Stream& stream, const Tensor& x, const Tensor& offsets, const void* packed,
               const Tensor& y) override;
  void input_gradient(Stream& stream, const Tensor& dy, const Tensor& offsets, const void* packed,
                      const Tensor& dx) override;
  void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                       const Tensor& dw, Gradient gradient) override;

 private:
  /// The offsets of a call, read into `memory` if the host cannot read them where they are.
  const std::int32_t* offsets_of(Stream& stream, const Tensor& offsets, const Buffer& memory) const;
  /// Calls body(group, first row, rows) for every block of rows of every group.
  template <typename Body>
  void for_each_block(const std::int32_t* offsets, const Body& body) const;
  /// Bytes from one group's packed weight to the next.
  std::size_t stride() const;

  const GroupedLinearShape shape_;
  std::vector<std::int64_t> blocks_;  ///< numbers of rows, descending
  std::unique_ptr<Linear> linear_;
  Buffer forward_offsets_, gradient_offsets_;  ///< a forward and a gradient may run at one time
};

}  // namespace troupe::tensor
