#include "actors/inference/stage_edges.h"

#include <algorithm>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::actors {

using tensor::Tensor;
using transport::Direction;
using transport::MessageKey;

namespace {

constexpr int kSlots = 2;  // a stage computes the next pass while what it has sent is read

/// A view of `memory` with the shape of x.
Tensor as(const Tensor& memory, const Tensor& x) {
  return {memory.data, x.dtype, x.shape};
}

}  // namespace

StageEdges::StageEdges(transport::Channel& channel, tensor::Device& device,
                       const stages::ModelPart& part, const StageMessages& messages)
    : channel_(channel),
      device_(device),
      part_(part),
      messages_(messages),
      received_(messages.shapes.size()),
      sent_(messages.shapes.size()) {
  transport::ConfigurationSpec spec{
      .run = 1, .configuration = 1, .rank = part.rank(), .edges = {}, .device = &device};
  for (std::size_t i = 0; i < messages.shapes.size(); ++i) {
    const auto add = [&](int from_stage) {
      const int from = from_stage * part.tp + part.shard;
      spec.edges.push_back({.from = from,
                            .to = from + part.tp,
                            .chunk = key(i, from_stage + 1, 0).chunk,
                            .direction = Direction::forward,
                            .dtype = messages.dtype,
                            .shape = messages.shapes[i],
                            .slots = kSlots});
    };
    if (!part.is_first()) add(part.stage - 1);
    if (!part.is_last()) add(part.stage);
  }
  channel.open(spec);
}

StageEdges::~StageEdges() {
  channel_.close("the rank has ended");
}

std::size_t StageEdges::edge_of(const Tensor& x) const {
  const auto found = std::ranges::find_if(messages_.shapes, [&](const tensor::Shape& shape) {
    return shape.num_elements() == x.num_elements();
  });
  TROUPE_ASSERT(found != messages_.shapes.end() && x.dtype == messages_.dtype);
  return static_cast<std::size_t>(found - messages_.shapes.begin());
}

MessageKey StageEdges::key(std::size_t edge, int stage, std::uint64_t number) const {
  return {.step = number, .chunk = stage + part_.pp * static_cast<int>(edge)};
}

void StageEdges::receive(tensor::Stream& stream, const Tensor& x) {
  const std::size_t edge = edge_of(x);
  const MessageKey message = key(edge, part_.stage, received_[edge]++);
  device_.ops().copy(stream, as(channel_.receive(message), x), x);
  stream.synchronize();
  channel_.release(message);
}

void StageEdges::send(tensor::Stream& stream, const Tensor& x) {
  const std::size_t edge = edge_of(x);
  const MessageKey message = key(edge, part_.stage + 1, sent_[edge]++);
  const Tensor buffer = channel_.acquire(message);
  device_.ops().copy(stream, x, as(buffer, x));
  stream.synchronize();
  channel_.send(message, buffer);
}

}  // namespace troupe::actors
