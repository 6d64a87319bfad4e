#include "actors/worker/step/parameter_histograms.h"

#include <utility>

#include "tensor/device/host_copies.h"

namespace troupe::actors {
namespace {

/// A message has some kilobytes at most, because control messages are small.
constexpr std::size_t kMostBins = 2048;

}  // namespace

std::vector<ParameterHistograms> histograms_of(const stages::Stage& stage,
                                               const stages::ModelConfig& model,
                                               const RankAssembly& part, const RunStep& order,
                                               int rank, tensor::Device& device) {
  std::vector<ParameterHistograms> messages;
  if (!is_first_holder(part)) return messages;
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
      messages.push_back(
          {.configuration = order.configuration, .step = order.step, .rank = rank, .body = {}});
      bins = 0;
    }
    bins += histogram.counts.size();
    const stages::ParameterInfo& info = infos.at(parameter.name);
    messages.back().body.rows.push_back(
        {.tensor = info.stored.tensor,
         .is_gradient = is_gradient,
         .whole = info.shape.num_elements() / info.shape[0] * info.stored.rows,
         .part = std::move(histogram)});
  };
  for (const stages::Parameter& parameter : stage.parameters()) {
    if (!parameter.owned || !is_told_of(part, parameter)) continue;
    add(parameter, parameter.kept_weight, false);
    if (!parameter.update.frozen) add(parameter, parameter.kept_gradient, true);
  }
  return messages;
}

}  // namespace troupe::actors
