#include "stages/replicas/weight_comparison.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <vector>

#include "tensor/device/host_copies.h"

namespace troupe::stages {
namespace {

using Digests = std::vector<std::int64_t>;
using tensor::Tensor;

/// A frozen base is what its files say.
bool is_compared(const Parameter& parameter, Compared compared) {
  if (parameter.update.is_base) return false;
  return compared == Compared::all || parameter.is_expert == (compared == Compared::experts);
}

/// The digests of one tensor of every parameter; 0 of one that is not compared.
Digests digests_of(const Stage& stage, Tensor Parameter::*tensor, tensor::Device& device,
                   Compared compared = Compared::all) {
  tensor::HostCopies copies(device);
  Digests digests;
  for (const Parameter& parameter : stage.parameters()) {
    if (!is_compared(parameter, compared)) {
      digests.push_back(0);
      continue;
    }
    const Tensor& x = parameter.*tensor;
    const void* const data = x.num_elements() > 0 ? copies.on_host(x).data : nullptr;
    digests.push_back(std::bit_cast<std::int64_t>(XXH3_64bits(data, x.num_bytes())));
  }
  return digests;
}

/// Sends `own` by a collective into a tensor of `count` digests, send(stream, own, out), and waits
/// for it.
template <typename Send>
Digests exchanged(const Digests& own, std::size_t count, tensor::Device& device, const Send& send) {
  const auto tensor_of = [](const tensor::Buffer& memory, std::size_t elements) {
    return memory.view(tensor::DType::i64, {static_cast<std::int64_t>(elements)});
  };
  const auto allocate = [&](std::size_t elements) {
    return device.allocate(elements * sizeof(std::int64_t), tensor::MemoryKind::device);
  };
  const tensor::Buffer from = allocate(own.size()), into = allocate(count);
  Digests received(count);
  const auto on_host = [](const Digests& digests) {
    return Tensor{const_cast<std::int64_t*>(digests.data()),
                  tensor::DType::i64,
                  {static_cast<std::int64_t>(digests.size())}};
  };
  tensor::HostCopies copies(device);
  copies.write(on_host(own), tensor_of(from, own.size()));
  copies.synchronize();
  const auto stream = device.make_stream();
  send(*stream, tensor_of(from, own.size()), tensor_of(into, count))->wait();
  copies.read(tensor_of(into, count), on_host(received));
  return received;
}

/// Sends `own` to the member `ep` after this one, which keeps it as `twin`.
std::unique_ptr<tensor::Work> forward(tensor::Stream& stream, tensor::ProcessGroup& twins, int ep,
                                      const Tensor& own, const Tensor& twin) {
  const int members = twins.size(), member = twins.member();
  std::vector<std::int64_t> sent(static_cast<std::size_t>(members)), received(sent);
  sent[static_cast<std::size_t>((member + ep) % members)] = own.num_elements();
  received[static_cast<std::size_t>((member + members - ep) % members)] = twin.num_elements();
  return twins.all_to_all(stream, own, twin, sent, received);
}

/// Notes the parameters whose digests differ.
void note_differences(std::span<const std::int64_t> own, std::span<const std::int64_t> reference,
                      WeightComparison& found) {
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i] != reference[i] && found.count++ == 0) found.first = static_cast<int>(i);
}

}  // namespace

WeightComparison compare_weights(const Stage& stage, tensor::ProcessGroup& holders,
                                 tensor::Device& device, Compared compared) {
  WeightComparison found;
  const std::size_t count = stage.parameters().size();
  const auto members = static_cast<std::size_t>(holders.size());
  if (count == 0) return found;
  const Digests all =
      exchanged(digests_of(stage, &Parameter::kept_weight, device, compared), count * members,
                device, [&](tensor::Stream& stream, const Tensor& own, const Tensor& out) {
                  return holders.all_gather(stream, own, out);
                });
  const auto of = [&](int member) {
    return std::span(all).subspan(static_cast<std::size_t>(member) * count, count);
  };
  const auto num_alike = [&](int member) {
    int alike = 0;
    for (int other = 0; other < holders.size(); ++other)
      alike += std::ranges::equal(of(member), of(other)) ? 1 : 0;
    return alike;
  };
  for (int member = 1; member < holders.size(); ++member)
    if (num_alike(member) > num_alike(found.reference)) found.reference = member;
  found.all_equal = num_alike(found.reference) == holders.size();
  note_differences(of(holders.member()), of(found.reference), found);
  return found;
}

void copy_state(Stage& stage, tensor::ProcessGroup& holders, int from, tensor::Device& device,
                Compared compared) {
  const auto stream = device.make_stream();
  const auto compares = [&](const Parameter& x) { return is_compared(x, compared); };
  for (const Parameter& parameter : stage.parameters() | std::views::filter(compares))
    for (const Tensor& x : {parameter.kept_weight, parameter.exp_avg, parameter.exp_avg_sq})
      if (x.num_elements() > 0) holders.broadcast(*stream, x, from)->wait();
  stage.weights_changed();
}

WeightComparison compare_with_twin(const Stage& stage, tensor::ProcessGroup& twins,
                                   tensor::Device& device, int ep) {
  const int members = twins.size();
  WeightComparison found{.reference = (twins.member() + members - ep) % members};
  const std::size_t count = stage.parameters().size();
  if (count == 0) return found;
  const Digests owners =
      exchanged(digests_of(stage, &Parameter::kept_weight, device), count, device,
                [&](tensor::Stream& stream, const Tensor& own, const Tensor& out) {
                  return forward(stream, twins, ep, own, out);
                });
  note_differences(digests_of(stage, &Parameter::twin_weight, device), owners, found);
  const Digests counts =
      exchanged({found.count}, static_cast<std::size_t>(members), device,
                [&](tensor::Stream& stream, const Tensor& own, const Tensor& out) {
                  return twins.all_gather(stream, own, out);
                });
  found.all_equal = std::ranges::all_of(counts, [](std::int64_t n) { return n == 0; });
  return found;
}

void copy_to_twins(Stage& stage, tensor::ProcessGroup& twins, tensor::Device& device, int ep) {
  const auto stream = device.make_stream();
  const auto copy = [&](const Tensor& own, const Tensor& twin) {
    forward(*stream, twins, ep, own, twin)->wait();
  };
  for (const Parameter& parameter : stage.parameters()) {
    if (parameter.update.is_base) continue;
    copy(parameter.kept_weight, parameter.twin_weight);
    if (parameter.update.frozen) continue;
    copy(parameter.exp_avg, parameter.twin_exp_avg);
    copy(parameter.exp_avg_sq, parameter.twin_exp_avg_sq);
  }
}

}  // namespace troupe::stages
