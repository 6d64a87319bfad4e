#include "stages/replicas/expert_squares.h"

namespace troupe::stages {
namespace {

std::vector<std::size_t> parameters_of_experts(const Stage& stage) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < stage.parameters().size(); ++i)
    if (stage.parameters()[i].is_expert) numbers.push_back(i);
  return numbers;
}

}  // namespace

ExpertSquares::ExpertSquares(const Stage& stage, tensor::ProcessGroup& replicas, int ep,
                             tensor::Device& device)
    : replicas_(replicas),
      ep_(ep),
      experts_(parameters_of_experts(stage)),
      gathered_(device.allocate(static_cast<std::size_t>(bytes(experts_.size(), replicas.size())),
                                tensor::MemoryKind::pinned)) {}

std::int64_t ExpertSquares::bytes(std::size_t num_parameters, int replicas) {
  return static_cast<std::int64_t>(num_parameters * sizeof(double)) * replicas;
}

void ExpertSquares::add(tensor::Stream& stream, std::span<double> squares) const {
  const auto count = static_cast<std::int64_t>(experts_.size());
  if (count == 0) return;
  auto* const all = static_cast<double*>(gathered_.data());
  double* const own = all + replicas_.member() * count;
  for (std::size_t i = 0; i < experts_.size(); ++i) own[i] = squares[experts_[i]];
  replicas_
      .all_gather(stream, {own, tensor::DType::f64, {count}},
                  gathered_.view(tensor::DType::f64, {count * replicas_.size()}))
      ->wait();
  // Replicas of one place hold the same bits, so that the first of each tell of all.
  for (std::size_t i = 0; i < experts_.size(); ++i) {
    double sum = 0;
    for (int member = 0; member < ep_; ++member)
      sum += all[static_cast<std::size_t>(member * count) + i];
    squares[experts_[i]] = sum;
  }
}

}  // namespace troupe::stages
