#include "stages/data_parallel/weight_comparison.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "tensor/host_copies.h"

namespace troupe::stages {
namespace {

using Digests = std::span<const std::int64_t>;

/// The digests of every member's parameters, member by member. `memory` holds them.
Digests gather_digests(const Stage& stage, tensor::ProcessGroup& replicas, tensor::Device& device,
                       tensor::Buffer& memory) {
  const auto count = static_cast<std::int64_t>(stage.parameters().size());
  const std::int64_t total = count * replicas.size();
  const auto bytes = static_cast<std::size_t>(total) * sizeof(std::int64_t);
  const tensor::Buffer gathered = device.allocate(bytes, tensor::MemoryKind::device);
  memory = device.allocate(bytes, tensor::MemoryKind::host);
  const tensor::Tensor all = gathered.view(tensor::DType::i64, {total});
  const auto place = static_cast<std::size_t>(replicas.member() * count);
  const tensor::Tensor own =
      gathered.view(tensor::DType::i64, {count}, place * sizeof(std::int64_t));
  const tensor::Tensor on_host = memory.view(tensor::DType::i64, {total});

  tensor::HostCopies copies(device);
  std::int64_t* next = on_host.as<std::int64_t>();
  for (const Parameter& parameter : stage.parameters()) {
    const tensor::Tensor weight = copies.on_host(parameter.weight);
    *next++ = std::bit_cast<std::int64_t>(XXH3_64bits(weight.as<float>(), weight.num_bytes()));
  }
  copies.write(memory.view(tensor::DType::i64, {count}), own);
  copies.synchronize();
  const auto stream = device.make_stream();
  replicas.all_gather(*stream, own, all)->wait();
  copies.read(all, on_host);
  return {on_host.as<std::int64_t>(), static_cast<std::size_t>(total)};
}

}  // namespace

WeightComparison compare_weights(const Stage& stage, tensor::ProcessGroup& replicas,
                                 tensor::Device& device) {
  tensor::Buffer memory;
  const Digests all = gather_digests(stage, replicas, device, memory);
  const std::size_t count = stage.parameters().size();
  const auto of = [&](int member) {
    return all.subspan(static_cast<std::size_t>(member) * count, count);
  };
  const auto num_alike = [&](int member) {
    int alike = 0;
    for (int other = 0; other < replicas.size(); ++other)
      alike += std::ranges::equal(of(member), of(other)) ? 1 : 0;
    return alike;
  };
  WeightComparison found;
  for (int member = 1; member < replicas.size(); ++member)
    if (num_alike(member) > num_alike(found.reference)) found.reference = member;
  found.all_equal = num_alike(found.reference) == replicas.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (of(replicas.member())[i] == of(found.reference)[i]) continue;
    if (found.count++ == 0) found.first = static_cast<int>(i);
  }
  return found;
}

void copy_state(Stage& stage, tensor::ProcessGroup& replicas, int from, tensor::Device& device) {
  const auto stream = device.make_stream();
  for (const Parameter& parameter : stage.parameters())
    for (const tensor::Tensor& x : {parameter.weight, parameter.exp_avg, parameter.exp_avg_sq})
      if (x) replicas.broadcast(*stream, x, from)->wait();
  stage.weights_changed();
}

}  // namespace troupe::stages
