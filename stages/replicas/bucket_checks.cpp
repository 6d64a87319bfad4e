#include "stages/replicas/bucket_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// The reductions of a bucket in a step.
int num_reductions(const DataParallelSpec& spec) {
  return spec.divides_gradients() ? spec.microbatches : 1;
}

/// By parameter, and one for the head's use of a tied embedding.
std::size_t num_squares(std::size_t num_parameters) {
  return num_parameters + 1;
}

}  // namespace

std::int64_t BucketChecks::bytes(const DataParallelSpec& spec, std::size_t num_parameters) {
  if (!spec.checks()) return 0;
  const std::size_t count = num_squares(num_parameters) * sizeof(double);
  return static_cast<std::int64_t>(count) * num_reductions(spec);
}

BucketChecks::BucketChecks(const DataParallelSpec& spec, const Stage& stage,
                           const std::vector<SharedBucket>& buckets, tensor::Device& device)
    : spec_(spec),
      stage_(stage),
      buckets_(buckets),
      num_squares_(num_squares(stage.parameters().size())),
      squares_(spec.checks() ? device.allocate(
                                   static_cast<std::size_t>(bytes(spec, stage.parameters().size())),
                                   tensor::MemoryKind::pinned)
                             : tensor::Buffer{}),
      num_looked_at_(buckets.size()) {
  large_buckets_.reserve(buckets.size());
}

tensor::Tensor BucketChecks::square_of(int reduction, std::size_t parameter) const {
  const std::size_t number = static_cast<std::size_t>(reduction) * num_squares_ + parameter;
  return squares_.view(tensor::DType::f64, {1}, number * sizeof(double));
}

void BucketChecks::begin_step() {
  not_finite_.clear();
  large_buckets_.clear();
  std::ranges::fill(num_looked_at_, 0);
}

void BucketChecks::look_at(std::size_t bucket, int reduction, tensor::Stream& stream) {
  if (!spec_.checks()) return;
  TROUPE_ASSERT(reduction < num_reductions(spec_));
  num_looked_at_[bucket] = reduction + 1;
  const auto sum = [&](const tensor::Tensor& gradient, std::size_t place) {
    stream.device().ops().sums_of_squares(stream, gradient, gradient.num_elements(),
                                          square_of(reduction, place));
  };
  const StateBucket& memory = buckets_[bucket].memory;
  if (memory.is_head_use) return sum(memory.gradient, num_squares_ - 1);
  for (int i = memory.range.parameters.first; i < memory.range.parameters.end; ++i) {
    const auto number = static_cast<std::size_t>(i);
    const tensor::Tensor& gradient = stage_.parameters()[number].gradient;
    if (gradient) sum(gradient, number);  // a frozen base has none
  }
}

void BucketChecks::read() {
  if (!spec_.checks()) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    for (int reduction = 0; reduction < num_looked_at_[b]; ++reduction) read(b, reduction);
}

/// A sum of float32 squares in float64 cannot overflow: it is finite if all elements are.
void BucketChecks::read(std::size_t bucket, int reduction) {
  const StateBucket& memory = buckets_[bucket].memory;
  const ParameterRange& range = memory.range.parameters;
  double sum = 0;
  for (int i = range.first; i < range.end; ++i) {
    const auto number = static_cast<std::size_t>(i);
    const double square =
        *square_of(reduction, memory.is_head_use ? num_squares_ - 1 : number).as<double>();
    sum += square;
    if (spec_.checks_finite && !std::isfinite(square) && not_finite_.empty())
      not_finite_ =
          fmt::format("the gradient of {}, in bucket {}, is not finite before it is summed",
                      stage_.parameters()[number].name, bucket);
  }
  const double norm = std::sqrt(sum);
  if (spec_.large_norm > 0 && !(norm <= spec_.large_norm))
    large_buckets_.push_back({.bucket = static_cast<int>(bucket), .norm = norm});
}

}  // namespace troupe::stages
