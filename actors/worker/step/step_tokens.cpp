#include "actors/worker/step/step_tokens.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "actors/worker/step/action_clock.h"
#include "actors/worker/step/token_broadcast.h"
#include "tensor/device/ops.h"

namespace troupe::actors {
namespace {

constexpr std::int64_t kCountElements = sizeof(std::int64_t) / sizeof(std::int32_t);

}  // namespace

StepTokens::StepTokens(const Source& source, tensor::Device& device)
    : source_(source),
      memory_(device.allocate(static_cast<std::size_t>(
                                  offset_of(Field::real) +
                                  source.num_microbatches * size_of(Field::real) + kCountElements) *
                                  sizeof(std::int32_t),
                              tensor::MemoryKind::pinned)),
      is_loaded_(static_cast<std::size_t>(source.num_microbatches)) {
  if (source.feed && has_documents()) batches_.emplace(*source.feed, source.rows.step);
}

double StepTokens::begin(std::int64_t step) {
  step_ = step;
  std::ranges::fill(is_loaded_, false);
  if (batches_) lay_out_documents(step);
  if (!source_.broadcast) return 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int m = 0; source_.feed && m < source_.num_microbatches; ++m) read(m);
  source_.broadcast->run(all());
  return seconds_since(begin);
}

void StepTokens::lay_out_documents(std::int64_t step) {
  batches_->begin(step);
  for (int m = 0; m < source_.num_microbatches; ++m) {
    const auto [rows, documents] =
        batches_->lay_out(source_.replica, m, part(Field::starts, m), part(Field::positions, m),
                          part(Field::real, m));
    part(Field::sizes, m)[0] = static_cast<std::int32_t>(rows);
    part(Field::sizes, m)[1] = static_cast<std::int32_t>(documents);
  }
  const std::int64_t targets = batches_->num_targets();
  std::memcpy(all().last(kCountElements).data(), &targets, sizeof targets);
}

void StepTokens::load(int microbatch) {
  if (source_.broadcast || std::exchange(is_loaded_[static_cast<std::size_t>(microbatch)], true))
    return;
  read(microbatch);
}

void StepTokens::read(int microbatch) {
  const auto rows = ids(microbatch).size();
  const auto ids = part(Field::ids, microbatch).first(rows);
  const auto targets = part(Field::targets, microbatch).first(rows);
  if (batches_)
    batches_->read(source_.replica, microbatch, ids, targets);
  else
    source_.feed->microbatch(step_, source_.replica, microbatch, ids, targets);
}

std::int64_t StepTokens::size_of(Field field) const {
  if (field == Field::ids || field == Field::targets) return source_.rows.capacity;
  if (!has_documents()) return 0;
  if (field == Field::positions) return source_.rows.capacity;
  if (field == Field::real) return source_.tells_padding ? source_.rows.capacity : 0;
  return field == Field::starts ? source_.rows.capacity + 1 : 2;
}

std::int64_t StepTokens::offset_of(Field field) const {
  std::int64_t offset = 0;
  for (const Field before :
       {Field::ids, Field::targets, Field::positions, Field::starts, Field::sizes})
    if (before < field) offset += source_.num_microbatches * size_of(before);
  return offset;
}

std::span<std::int32_t> StepTokens::all() const {
  return {static_cast<std::int32_t*>(memory_.data()), memory_.bytes() / sizeof(std::int32_t)};
}

std::span<std::int32_t> StepTokens::part(Field field, int microbatch) const {
  const std::int64_t size = size_of(field);
  return all().subspan(static_cast<std::size_t>(offset_of(field) + microbatch * size),
                       static_cast<std::size_t>(size));
}

std::span<const std::int32_t> StepTokens::ids(int microbatch) const {
  const auto ids = part(Field::ids, microbatch);
  return has_documents() ? ids.first(static_cast<std::size_t>(documents(microbatch).rows)) : ids;
}

std::span<const std::int32_t> StepTokens::targets(int microbatch) const {
  return part(Field::targets, microbatch).first(ids(microbatch).size());
}

stages::DocumentRows StepTokens::documents(int microbatch) const {
  if (!has_documents()) return {};
  const auto sizes = part(Field::sizes, microbatch);
  const auto rows = static_cast<std::size_t>(sizes[0]);
  return {.rows = sizes[0],
          .starts = part(Field::starts, microbatch).first(static_cast<std::size_t>(sizes[1]) + 1),
          .positions = part(Field::positions, microbatch).first(rows),
          .real = source_.tells_padding ? part(Field::real, microbatch).first(rows)
                                        : std::span<const std::int32_t>{}};
}

std::int64_t StepTokens::num_targets() const {
  std::int64_t targets = 0;
  std::memcpy(&targets, all().last(kCountElements).data(), sizeof targets);
  return targets;
}

void StepTokens::add_by_source(int microbatch, std::span<const double> losses,
                               std::span<StepReport::SourceSum> sums) const {
  const auto of_rows = targets(microbatch);
  const auto add = [&](const stages::Sample& sample, std::int64_t first) {
    StepReport::SourceSum& sum = sums[static_cast<std::size_t>(sample.source)];
    const auto begin = static_cast<std::size_t>(first);
    for (std::size_t row = begin; row < begin + static_cast<std::size_t>(sample.targets); ++row) {
      if (of_rows[row] == tensor::kNoTarget) continue;
      sum.loss_sum += losses[row];
      ++sum.targets;
    }
  };
  if (batches_)
    batches_->for_each_sample(source_.replica, microbatch, add);
  else
    source_.feed->for_each_sample(step_, source_.replica, microbatch, add);
}

tensor::Tensor StepTokens::used_part(const tensor::Tensor& edge, int microbatch) const {
  if (source_.rows.step == 0) return edge;
  const std::int64_t part = documents(microbatch).rows * edge.shape[0] / source_.rows.capacity;
  if (edge.shape.rank() == 1) return {edge.data, edge.dtype, {part}};
  return {edge.data, edge.dtype, {part, edge.shape[1]}};
}

stages::BatchPlace StepTokens::place_of(int microbatch) const {
  const std::int64_t of_lane = source_.samples / source_.lanes;  // in a microbatch
  const std::int64_t first_lane = std::int64_t{source_.replica} * source_.lanes;
  stages::BatchPlace place{
      .step = step_,
      .first_sample = (first_lane * source_.num_microbatches + microbatch) * of_lane};
  if (source_.lanes > 1) {
    const bool varies = source_.rows.step > 0;
    const std::int64_t rows = varies ? documents(microbatch).rows : source_.rows.capacity;
    place.lane_rows = rows / source_.lanes;
    place.lane_samples = source_.num_microbatches * of_lane;
  }
  return place;
}

}  // namespace troupe::actors
