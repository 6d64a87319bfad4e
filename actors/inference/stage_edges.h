#pragma once

#include <cstdint>
#include <vector>

#include "stages/inference/model_part.h"
#include "stages/inference/stage_link.h"
#include "tensor/device/device.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

/// The tensors that go from each stage to the next one.
struct StageMessages {
  std::vector<tensor::Shape> shapes;  ///< of which each tensor has one; no two have equal sizes
  tensor::DType dtype = tensor::DType::f32;
};

/// The edges of one rank of a model that does not train, from and to the same shard of the stages
/// beside its own. Each shape has an edge of its own, so that a message is no larger than what it
/// carries. Two messages of an edge may be under way.
class StageEdges final : public stages::StageLink {
 public:
  /// Opens the channel, by ranks as ModelPart numbers them, whose peers must be connected. The
  /// device outlives the channel, and that the object.
  StageEdges(transport::Channel& channel, tensor::Device& device, const stages::ModelPart& part,
             const StageMessages& messages);
  ~StageEdges() override;

  void receive(tensor::Stream& stream, const tensor::Tensor& x) override;
  void send(tensor::Stream& stream, const tensor::Tensor& x) override;
  /// Blocks until all that was sent has left this rank.
  void flush() { channel_.flush(); }

 private:
  /// Which edge carries x.
  std::size_t edge_of(const tensor::Tensor& x) const;
  transport::MessageKey key(std::size_t edge, int stage, std::uint64_t number) const;
  transport::Channel& channel_;
  tensor::Device& device_;
  const stages::ModelPart part_;
  const StageMessages messages_;
  std::vector<std::uint64_t> received_, sent_;  ///< messages so far, by edge
};

}  // namespace troupe::actors
