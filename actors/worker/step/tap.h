#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/monitors/event.h"
#include "actors/topology/assembly.h"
#include "tensor/device/host_copies.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

/// Looks at the tensors that one rank sends in one step. Dumps are written before the tensor is
/// sent, which slows the run only if dumps are requested.
class Tap {
 public:
  /// Selects the order's requests for tensors that `rank` sends. Dumps go to `folder`. `part`
  /// and `device`, whose ops wrote the tensors, outlive the tap.
  Tap(const RunStep& order, const RankAssembly& part, int rank, std::string folder,
      tensor::Device& device);
  /// Looks at a tensor that has been written and is about to be sent.
  void look(const transport::MessageKey& key, const tensor::Tensor& tensor);
  /// Takes the messages to the director, one for each tensor that matched a request.
  std::vector<Tapped> take() { return std::exchange(tapped_, {}); }

 private:
  void dump(const tensor::Tensor& tensor, TensorTapped& tapped) const;

  struct PendingTap {
    TapRequest request;
    std::int64_t taken = 0;
  };
  std::vector<PendingTap> pending_;
  const RankAssembly& part_;
  const int rank_;
  const std::uint32_t configuration_;
  const std::int64_t step_;
  const std::string folder_;
  tensor::HostCopies copies_;
  std::vector<Tapped> tapped_;
};

}  // namespace troupe::actors
