#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/monitors/event.h"

namespace troupe::launch {

/// Adds up the parts of histograms that the ranks have sent, until their step is committed. Parts
/// of a step that was given up are forgotten when it is done again, which is in another
/// configuration.
class HistogramGatherer {
 public:
  struct Whole {
    std::int64_t elements = 0;  ///< of the whole tensor
    actors::ValueHistogram histogram;
    bool is_complete() const { return histogram.elements == elements; }
  };
  void add(const actors::RunEvent& event, const actors::ParametersSeen& seen);
  /// Takes the histograms of a step that is committed, by their names "weights/TENSOR" and
  /// "gradients/TENSOR". Not complete are those of which events were lost.
  std::map<std::string, Whole> take(std::int64_t step);

 private:
  struct Step {
    std::uint32_t configuration = 0;
    std::map<std::string, Whole> wholes;
  };
  std::map<std::int64_t, Step> steps_;
};

}  // namespace troupe::launch
