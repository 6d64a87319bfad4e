#include "tensor/cuda/nccl/nccl_collectives.h"

#include <array>
#include <cstring>
#include <utility>

#include "tensor/cuda/nccl/nccl_group.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

static_assert(sizeof(ncclUniqueId) == NCCL_UNIQUE_ID_BYTES);

/// Memory of the host that members exchange.
template <std::size_t n>
Tensor view(std::array<std::int32_t, n>& numbers) {
  return {numbers.data(), DType::i32, Shape{static_cast<std::int64_t>(n)}};
}

}  // namespace

NcclCollectives::NcclCollectives(Device& device, const LibrarySearch& search, GroupThreads threads)
    : device_(device) {
  try {
    library_.emplace(search);
  } catch (const Error& error) {
    fault_ = error.what();
    return;
  }
  for (auto* const stream : {&stream_, &adding_})
    stream->reset(&kernel_stream(*device.make_stream().release()));
  service_.emplace(*library_, std::move(threads));
}

/// Why not all members can use NCCL; empty if they can.
std::string NcclCollectives::fault_of_members(ProcessGroup& hosts, Stream& stream) const {
  std::array<std::int32_t, 1> lacking{library_ ? 0 : 1};
  hosts.all_reduce(stream, view(lacking))->wait();
  if (lacking[0] == 0 || !fault_.empty()) return fault_;
  return std::to_string(lacking[0]) + " other members of the group have no NCCL";
}

MadeGroup NcclCollectives::make_group(const GroupSpec& spec, ProcessGroup& hosts) {
  TROUPE_ASSERT(std::ssize(spec.members) == hosts.size());
  const auto stream = device_.make_stream();  // of calls among the hosts, with nothing before them
  const std::string fault = fault_of_members(hosts, *stream);
  if (!fault.empty()) return {.group = nullptr, .fault = fault};
  std::shared_ptr<NcclCommunicator> communicator;
  if (hosts.size() > 1) communicator = communicator_of(spec, hosts, *stream);
  return {.group = std::make_unique<NcclGroup>(*this, spec, std::move(communicator)), .fault = ""};
}

std::shared_ptr<NcclCommunicator> NcclCollectives::communicator_of(const GroupSpec& spec,
                                                                   ProcessGroup& hosts,
                                                                   Stream& stream) {
  if (auto found = service_->find(spec.epoch, spec.members)) return found;
  // The largest that a collective takes, so that none has to wait for more.
  (void)stream_->scratch(kPartsAtOnce * static_cast<std::size_t>(hosts.size()) * kPartBytes);
  std::array<std::int32_t, sizeof(ncclUniqueId) / sizeof(std::int32_t)> words{};
  ncclUniqueId id{};
  if (hosts.member() == 0) {
    const ncclResult_t result = library_->get_unique_id(&id);
    if (result != ncclSuccess)
      throw Error(ErrorKind::internal, library_->text_of("ncclGetUniqueId", result, nullptr));
    std::memcpy(words.data(), &id, sizeof id);
  }
  hosts.broadcast(stream, view(words), 0)->wait();
  std::memcpy(&id, words.data(), sizeof id);
  return service_->add(spec.epoch, spec.members, hosts.member(), id);
}

std::unique_ptr<DeviceGroups> make_nccl_groups(Device& device, const LibrarySearch& search,
                                               GroupThreads threads) {
  return std::make_unique<NcclCollectives>(device, search, std::move(threads));
}

}  // namespace troupe::tensor::cuda
