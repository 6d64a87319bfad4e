#include "stages/replicas/tied_sums.h"

#include <algorithm>

#include "stages/replicas/shared_buckets.h"
#include "tensor/device/ops.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

std::int64_t total(std::span<const TiedParts::Part> parts) {
  std::int64_t elements = 0;
  for (const TiedParts::Part& part : parts) elements += part.count;
  return elements;
}

std::vector<std::int64_t> counts_of(std::span<const TiedParts::Part> parts, int members) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(members));
  for (const auto& [member, first, count] : parts) counts[static_cast<std::size_t>(member)] = count;
  return counts;
}

}  // namespace

TiedSums::TiedSums(const TiedParts& parts, int members, tensor::Device& device)
    : parts_(parts),
      send_counts_(counts_of(parts.sent, members)),
      receive_counts_(counts_of(parts.received, members)),
      memory_(device.allocate(static_cast<std::size_t>(bytes(parts)), tensor::MemoryKind::device)) {
}

/// A rank whose slice is empty exchanges nothing, but has an address to say so.
std::int64_t TiedSums::bytes(const TiedParts& parts) {
  if (parts.empty()) return 0;
  const std::int64_t elements = total(parts.sent) + total(parts.received);
  return std::max<std::int64_t>(1, elements) * static_cast<std::int64_t>(sizeof(float));
}

Tensor TiedSums::sent() const {
  return memory_.view(DType::f32, {total(parts_.sent)});
}

std::unique_ptr<tensor::Work> TiedSums::begin(tensor::Stream& stream, tensor::ProcessGroup& group,
                                              const Tensor& kept) {
  const Tensor out = sent();
  std::int64_t at = 0;
  for (const auto& [member, first, count] : parts_.sent) {
    stream.device().ops().copy(stream, elements_of(kept, first, count),
                               elements_of(out, at, count));
    at += count;
  }
  const Tensor in = elements_of(out, at, total(parts_.received));
  return group.all_to_all(stream, out, in, send_counts_, receive_counts_);
}

void TiedSums::add(tensor::Stream& stream, const Tensor& kept) const {
  std::int64_t at = total(parts_.sent);
  for (const auto& [member, first, count] : parts_.received) {
    stream.device().ops().accumulate(stream, elements_of(sent(), at, count),
                                     elements_of(kept, first, count));
    at += count;
  }
}

}  // namespace troupe::stages
