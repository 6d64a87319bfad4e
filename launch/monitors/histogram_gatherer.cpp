#include "launch/monitors/histogram_gatherer.h"

#include <iterator>
#include <utility>

namespace troupe::launch {

void HistogramGatherer::add(const actors::RunEvent& event, const actors::ParametersSeen& seen) {
  Step& step = steps_[event.step];
  if (step.configuration != event.configuration) step = {.configuration = event.configuration};
  for (const auto& row : seen.rows) {
    Whole& whole = step.wholes[(row.is_gradient ? "gradients/" : "weights/") + row.tensor];
    whole.elements = row.whole;
    whole.histogram.add(row.part);
  }
}

std::map<std::string, HistogramGatherer::Whole> HistogramGatherer::take(std::int64_t step) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return {};
  auto wholes = std::move(found->second.wholes);
  steps_.erase(steps_.begin(), std::next(found));
  return wholes;
}

}  // namespace troupe::launch
