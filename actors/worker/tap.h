#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/monitors/event.h"
#include "actors/topology/assembly.h"
#include "transport/channel.h"

namespace troupe::actors {

/// Looks at what one rank sends in one step. Dumps are written at once: only who asks for them
/// slows the run.
class Tap {
 public:
  /// What fits the step among the requests. `folder` is for dumps. `part` outlives the tap.
  Tap(const RunStep& order, const RankAssembly& part, int rank, std::string folder);
  /// A tensor in host memory is about to be sent.
  void look(const transport::MessageKey& key, const tensor::Tensor& tensor);
  /// A message to the director for each tensor that fitted.
  std::vector<Tapped> take() { return std::exchange(tapped_, {}); }

 private:
  void dump(const tensor::Tensor& tensor, Tapped& tapped) const;

  struct Wish {
    TapRequest request;
    std::int64_t taken = 0;
  };
  std::vector<Wish> wishes_;
  const RankAssembly& part_;
  const int rank_;
  const std::uint32_t epoch_;
  const std::int64_t step_;
  const std::string folder_;
  std::vector<Tapped> tapped_;
};

}  // namespace troupe::actors
