#include "transport/collectives/one_shot_members.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tensor/device/peer_memory.h"
#include "transport/memory/descriptor_offers.h"

namespace troupe::transport {
namespace {

using tensor::OneShotDevice;
using tensor::Tensor;

/// What a member tells the others, as numbers that a group of hosts carries.
struct MemberPiece {
  std::int64_t id = SegmentName::kNone;  ///< of the name by which its memory is offered
  std::int64_t nonce = 0;
  std::array<std::int64_t, 2> hardware{};

  SegmentName name() const { return {.id = id, .nonce = static_cast<std::uint64_t>(nonce)}; }
};
constexpr std::int64_t kNumbers = sizeof(MemberPiece) / sizeof(std::int64_t);

std::vector<MemberPiece> gathered(tensor::ProcessGroup& hosts, tensor::Stream& stream,
                                  MemberPiece own) {
  std::vector<MemberPiece> all(static_cast<std::size_t>(hosts.size()));
  hosts
      .all_gather(stream, Tensor{&own, tensor::DType::i64, {kNumbers}},
                  Tensor{all.data(), tensor::DType::i64, {kNumbers * hosts.size()}})
      ->wait();
  return all;
}

/// Maps the piece of member i. Returns why that is not possible; empty if it is done.
std::string map(tensor::Device& device, const std::vector<MemberPiece>& pieces, int i,
                tensor::PeerMemory& memory) {
  const MemberPiece& piece = pieces[static_cast<std::size_t>(i)];
  const MemberPiece& own = pieces[static_cast<std::size_t>(memory.member)];
  if (own.id == SegmentName::kNone) return "its device cannot share memory";
  if (piece.hardware == own.hardware)
    return fmt::format("members {} and {} have one GPU", memory.member, i);
  const auto descriptor = fetch_descriptor(piece.name());
  if (!descriptor) return fmt::format("member {} offers it no memory", i);
  tensor::Buffer& other = memory.others[static_cast<std::size_t>(i)];
  other = device.map(descriptor->get(), OneShotDevice::kShared);
  return other.data() ? "" : fmt::format("its device does not reach the memory of member {}'s", i);
}

/// Whether any member has a fault. Nobody needs another's offer any more then.
bool any_lacks(tensor::ProcessGroup& hosts, tensor::Stream& stream, bool own) {
  std::int32_t lacks = own ? 1 : 0;
  hosts.all_reduce(stream, Tensor{&lacks, tensor::DType::i32, {1}})->wait();
  return lacks != 0;
}

}  // namespace

MadeOneShot make_one_shot(tensor::Device& device, tensor::ProcessGroup& hosts) {
  auto* const maker = dynamic_cast<OneShotDevice*>(&device);
  if (!maker) return {};
  if (hosts.size() > tensor::kMostOneShotMembers)
    return {
        .norm = nullptr,
        .fault = fmt::format("the group has more than {} members", tensor::kMostOneShotMembers)};
  const auto stream = device.make_stream();  // of calls among the hosts, with nothing before them
  tensor::PeerMemory memory{
      .own = device.share(OneShotDevice::kShared), .others = {}, .member = hosts.member()};
  memory.others.resize(static_cast<std::size_t>(hosts.size()));
  DescriptorOffers offers;
  MemberPiece own;
  for (std::size_t i = 0; i < own.hardware.size(); ++i)
    own.hardware[i] = static_cast<std::int64_t>(maker->hardware()[i]);
  if (memory.own) {
    const SegmentName name = offers.offer(memory.own.descriptor());
    own.id = name.id;
    own.nonce = static_cast<std::int64_t>(name.nonce);
  }
  const std::vector<MemberPiece> pieces = gathered(hosts, *stream, own);
  std::string fault;
  for (int i = 0; i < hosts.size() && fault.empty(); ++i)
    if (i != memory.member) fault = map(device, pieces, i, memory);
  if (any_lacks(hosts, *stream, !fault.empty()))
    return {.norm = nullptr, .fault = fault.empty() ? "another member cannot" : fault};
  return {.norm = maker->make_one_shot_norm(std::move(memory)), .fault = ""};
}

}  // namespace troupe::transport
