#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/device/process_group.h"

namespace troupe::stages {

/// What a rank gives of its stage's sum of the gradient of a tied matrix to the ranks of the stage
/// with the other use, and what it gets of theirs. Elements count in what the rank keeps of the
/// gradient (Parameter::kept_gradient); each is received from one member.
struct TiedParts {
  struct Part {
    int member = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> sent, received;  ///< in the order of members
  std::int64_t largest = 0;          ///< elements of the largest part that any two members exchange

  bool empty() const { return largest == 0; }
};

/// Adds the two sums of a tied matrix's gradient whose stages cut it otherwise: into other shards,
/// or slices of other replicas. Every rank adds what it gets to what it has, so that all holders of
/// an element add the same two numbers.
class TiedSums {
 public:
  TiedSums(const TiedParts& parts, int members, tensor::Device& device);
  /// Bytes that it allocates.
  static std::int64_t bytes(const TiedParts& parts);

  std::int64_t allocated() const { return static_cast<std::int64_t>(memory_.bytes()); }
  /// What begin() sends.
  tensor::Tensor sent() const;
  /// Starts the exchange of `kept`. Members of the group are those of the parts.
  std::unique_ptr<tensor::Work> begin(tensor::Stream& stream, tensor::ProcessGroup& group,
                                      const tensor::Tensor& kept);
  /// Adds what has come.
  void add(tensor::Stream& stream, const tensor::Tensor& kept) const;

 private:
  const TiedParts parts_;
  std::vector<std::int64_t> send_counts_, receive_counts_;  // by member
  const tensor::Buffer memory_;                             // float32: what is sent, then the rest
};

}  // namespace troupe::stages
