#include "stages/data_parallel/bucket_checks.h"

#include <fmt/format.h>

#include <cmath>

#include "tensor/ops.h"

namespace troupe::stages {

std::int64_t BucketChecks::bytes(const DataParallelSpec& spec, std::size_t num_parameters) {
  return spec.checks() ? static_cast<std::int64_t>(num_parameters * sizeof(double)) : 0;
}

BucketChecks::BucketChecks(const DataParallelSpec& spec, const Stage& stage,
                           const std::vector<Bucket>& buckets, tensor::Device& device)
    : spec_(spec),
      stage_(stage),
      buckets_(buckets),
      squares_(spec.checks() ? device.allocate(
                                   static_cast<std::size_t>(bytes(spec, stage.parameters().size())),
                                   tensor::MemoryKind::pinned)
                             : tensor::Buffer{}) {
  large_buckets_.reserve(buckets.size());
}

tensor::Tensor BucketChecks::square_of(int parameter) const {
  return squares_.view(tensor::DType::f64, {1},
                       static_cast<std::size_t>(parameter) * sizeof(double));
}

void BucketChecks::begin_step() {
  not_finite_.clear();
  large_buckets_.clear();
}

void BucketChecks::look_at(const Bucket& bucket, tensor::Stream& stream) {
  if (!spec_.checks()) return;
  const auto parameters = stage_.parameters();
  for (int i = bucket.parameters.first; i < bucket.parameters.end; ++i) {
    const tensor::Tensor& gradient = parameters[static_cast<std::size_t>(i)].gradient;
    stream.device().ops().sums_of_squares(stream, gradient, gradient.num_elements(), square_of(i));
  }
}

/// A sum of float32 squares in float64 cannot overflow: it is finite if all elements are.
void BucketChecks::read() {
  if (!spec_.checks()) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const ParameterRange& range = buckets_[b].parameters;
    double sum = 0;
    for (int i = range.first; i < range.end; ++i) {
      const double square = *square_of(i).as<double>();
      sum += square;
      if (spec_.checks_finite && !std::isfinite(square) && not_finite_.empty())
        not_finite_ =
            fmt::format("the gradient of {}, in bucket {}, is not finite before it is summed",
                        stage_.parameters()[static_cast<std::size_t>(i)].name, b);
    }
    const double norm = std::sqrt(sum);
    if (spec_.large_norm > 0 && !(norm <= spec_.large_norm))
      large_buckets_.push_back({.bucket = static_cast<int>(b), .norm = norm});
  }
}

}  // namespace troupe::stages
