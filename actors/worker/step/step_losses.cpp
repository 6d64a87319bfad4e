#include "actors/worker/step/step_losses.h"

#include <algorithm>
#include <cmath>

namespace troupe::actors {
namespace {

tensor::Buffer numbers(std::int64_t count, tensor::Device& device) {
  if (count == 0) return {};
  return device.allocate(static_cast<std::size_t>(count) * sizeof(double),
                         tensor::MemoryKind::pinned);
}

}  // namespace

StepLosses::StepLosses(const StepTokens::Source& source, tensor::Device& device)
    : num_microbatches_(source.num_microbatches),
      capacity_(source.rows.capacity),
      sums_(static_cast<std::size_t>(source.num_sources)),
      has_rows_(static_cast<std::size_t>(source.num_microbatches)),
      losses_(numbers(num_microbatches_, device)),
      of_rows_(numbers(sums_.empty() ? 0 : num_microbatches_ * capacity_, device)) {}

void StepLosses::begin() {
  for (int m = 0; m < num_microbatches_; ++m) set(m, 0);
  std::ranges::fill(has_rows_, false);
}

tensor::Tensor StepLosses::of_microbatch(int microbatch) const {
  return losses_.view(tensor::DType::f64, {1},
                      static_cast<std::size_t>(microbatch) * sizeof(double));
}

tensor::Tensor StepLosses::of_rows(int microbatch, std::int64_t rows) {
  if (sums_.empty()) return {};
  has_rows_[static_cast<std::size_t>(microbatch)] = true;
  const auto at = static_cast<std::size_t>(microbatch * capacity_) * sizeof(double);
  return of_rows_.view(tensor::DType::f64, {rows}, at);
}

StepLosses::Total StepLosses::add_up(const StepTokens& tokens) {
  Total total{.sources = sums_};
  std::ranges::fill(sums_, StepReport::SourceSum{});
  const auto capacity = static_cast<std::size_t>(capacity_);
  const auto* const rows = static_cast<const double*>(of_rows_.data());
  for (int m = 0; m < num_microbatches_; ++m) {
    const double loss = *of_microbatch(m).as<double>();
    total.sum += loss;
    if (!std::isfinite(loss) && total.bad_microbatch < 0) total.bad_microbatch = m;
    const auto at = static_cast<std::size_t>(m);
    if (has_rows_[at]) tokens.add_by_source(m, {rows + at * capacity, capacity}, sums_);
  }
  return total;
}

}  // namespace troupe::actors
