#include "actors/worker/step/parameter_histograms.h"

#include "actors/monitors/value_histogram.h"
#include "tensor/host_copies.h"

namespace troupe::actors {
namespace {

/// A message has some kilobytes at most, because control messages are small.
constexpr std::size_t kMostBins = 2048;

ParameterHistograms::Row row_of(const ValueHistogram& histogram) {
  ParameterHistograms::Row row{.elements = histogram.elements,
                               .not_finite = histogram.not_finite,
                               .min = to_bits(histogram.min),
                               .max = to_bits(histogram.max),
                               .sum = to_bits(histogram.sum),
                               .squares = to_bits(histogram.squares)};
  for (const auto& [bin, count] : histogram.counts) {
    row.bins.push_back(bin);
    row.counts.push_back(count);
  }
  return row;
}

}  // namespace

std::vector<ParameterHistograms> histograms_of(const stages::Stage& stage,
                                               const stages::ModelConfig& model,
                                               const RankAssembly& part, const RunStep& order,
                                               int rank, tensor::Device& device) {
  std::vector<ParameterHistograms> messages;
  if (part.place.replica >= part.stage.state.count) return messages;
  tensor::HostCopies copies(device);
  const auto infos = stages::parameters_by_name(model);
  std::size_t bins = kMostBins;
  const auto add = [&](const stages::Parameter& parameter, const tensor::Tensor& kept,
                       bool is_gradient) {
    const std::int64_t elements = parameter.region_of(parameter.slice).num_elements();
    if (elements == 0) return;
    ValueHistogram histogram;
    histogram.add(copies.on_host({.data = kept.data, .dtype = kept.dtype, .shape = {elements}}));
    if (bins >= kMostBins) {
      messages.push_back({.configuration = order.configuration, .step = order.step, .rank = rank});
      bins = 0;
    }
    auto& row = messages.back().rows.emplace_back(row_of(histogram));
    const stages::ParameterInfo& info = infos.at(parameter.name);
    row.tensor = info.stored.tensor;
    row.is_gradient = is_gradient;
    row.whole = info.shape.num_elements() / info.shape[0] * info.stored.rows;
    bins += row.bins.size();
  };
  for (const stages::Parameter& parameter : stage.parameters()) {
    if (!parameter.owned) continue;
    add(parameter, parameter.kept_weight, false);
    if (!parameter.update.frozen) add(parameter, parameter.kept_gradient, true);
  }
  return messages;
}

}  // namespace troupe::actors
