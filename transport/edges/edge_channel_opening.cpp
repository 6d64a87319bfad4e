#include <algorithm>
#include <iterator>

#include "tensor/device/host_memory.h"
#include "tensor/errors/error.h"
#include "transport/edges/edge_channel.h"

// How the channel begins a configuration: its boxes, and the slots that it grants.

namespace troupe::transport {
namespace {

using TensorOf = EndTensor (*)(const Edge& edge);

/// Whether edges carry pieces of one tensor, alike in what those of one end have in common.
bool are_pieces(std::span<const Edge> edges, TensorOf tensor_of) {
  const Edge& first = edges.front();
  const EndTensor whole = tensor_of(first);
  return std::ranges::all_of(edges, [&](const Edge& edge) {
    const EndTensor tensor = tensor_of(edge);
    return !edge.is_local() && edge.dtype == first.dtype && edge.slots == first.slots &&
           tensor.shape == whole.shape && tensor.offset + tensor_bytes(edge) <= whole.stride;
  });
}

/// Whether a receiving end has one edge, or edges whose pieces tile its tensor.
bool is_received_whole(std::span<const Edge> edges) {
  if (edges.front().received.is_whole()) return edges.size() == 1;
  if (!are_pieces(edges, received_tensor)) return false;
  std::vector<Edge> sorted(edges.begin(), edges.end());
  std::ranges::sort(sorted, {}, [](const Edge& edge) { return edge.received.first_row; });
  std::int64_t rows = 0;
  for (const Edge& edge : sorted) {
    if (edge.received.first_row != rows) return false;
    rows += edge.shape[0];
  }
  return rows == edges.front().received.rows;
}

/// Whether a sending end has one edge, or edges that carry pieces of one tensor.
bool is_sent_from_one(std::span<const Edge> edges) {
  return (edges.size() == 1 && edges.front().sent.is_whole()) || are_pieces(edges, sent_tensor);
}

}  // namespace

void EdgeChannel::open(const ConfigurationSpec& spec) {
  Configurations ended;
  {
    const std::unique_lock<Link> lock(link_);
    ended = retire_configuration();
    closed_ = kNotOpened;
    board_.set_ranks(spec.ranks);
  }
  ended.clear();
  use_device(spec);
  auto configuration = make_configuration(spec);
  const std::unique_lock<Link> lock(link_);
  configuration_ = std::move(configuration);
  count_edges(spec);
  closed_.clear();
  grant_slots();
  use_early_grants();
}

/// Returns what nobody uses any more. It may have memory of a device, and is destroyed without the
/// lock.
EdgeChannel::Configurations EdgeChannel::retire_configuration() {
  if (configuration_) retired_.push_back(std::move(configuration_));
  const auto is_used = [](const auto& configuration) { return configuration->in_flight > 0; };
  const auto unused = std::stable_partition(retired_.begin(), retired_.end(), is_used);
  Configurations ended{std::move_iterator(unused), std::move_iterator(retired_.end())};
  retired_.erase(unused, retired_.end());
  return ended;
}

/// Called without the lock, because memory of a device is made here.
std::unique_ptr<OpenConfiguration> EdgeChannel::make_configuration(const ConfigurationSpec& spec) {
  auto made = std::make_unique<OpenConfiguration>();
  made->spec = spec;
  made->inboxes.reserve(spec.edges.size());
  made->outboxes.reserve(spec.edges.size());  // buffers point to their outbox: none may move
  for (const Edge& edge : spec.edges) {
    TROUPE_ASSERT((edge.from == spec.rank || edge.to == spec.rank) && edge.slots > 0 &&
                  tensor_bytes(edge) > 0);
  }
  for (const auto& pieces : receiving_ends(spec.edges, spec.rank)) {
    TROUPE_ASSERT(is_received_whole(pieces));
    add_inboxes(pieces, *made);
  }
  for (const auto& pieces : sending_ends(spec.edges, spec.rank)) {
    TROUPE_ASSERT(is_sent_from_one(pieces));
    add_outboxes(pieces, *made);
  }
  return made;
}

void EdgeChannel::use_device(const ConfigurationSpec& spec) {
  const auto crosses = [&spec](const Edge& edge) {
    return !edge.is_local() && is_on_device(edge, spec.device);
  };
  if (std::ranges::none_of(spec.edges, crosses)) return;
  if (!device_edges_ || !device_edges_->serves(*spec.device, spec.choice)) {
    DeviceWork::Events& events = *this;
    device_edges_.reset();
    device_edges_ = std::make_unique<DeviceEdges>(*spec.device, spec.choice, link_, events);
  }
  std::size_t copies = 0;
  for (const Edge& edge : spec.edges)
    if (crosses(edge)) copies += static_cast<std::size_t>(edge.slots) + num_send_buffers(edge);
  device_edges_->work().reserve(copies);
}

void EdgeChannel::count_edges(const ConfigurationSpec& spec) {
  counts_.edges.clear();
  for (const Edge& edge : spec.edges) {
    if (edge.from != spec.rank || edge.is_local()) continue;
    const auto same = [&edge](const EdgeCount& count) { return count.to == edge.to; };
    if (std::ranges::none_of(counts_.edges, same))
      counts_.edges.push_back({.from = edge.from, .to = edge.to, .bytes = 0});
  }
}

/// Adds the inboxes of one end.
void EdgeChannel::add_inboxes(std::span<const Edge> pieces, OpenConfiguration& to) {
  const Edge& edge = pieces.front();
  const bool on_device = is_on_device(edge, to.spec.device);
  if (edge.is_local()) {
    const auto placement = on_device ? EdgePlacement::local : EdgePlacement::host;
    ReceiverMemory none{.placement = placement, .arrivals = nullptr, .device = nullptr};
    to.inboxes.emplace_back(edge, std::move(none), &to, false);
    return;
  }
  if (on_device) {
    auto memory = device_edges_->receiver_memory(pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      to.inboxes.emplace_back(pieces[i], std::move(memory[i]), &to, false);
    return;
  }
  const std::unique_lock<Link> lock(link_);
  auto memory = kept_memory(edge, to.spec);
  const bool kept = memory != nullptr;
  if (!kept) memory = link_.allocate(sender_here(link_, pieces), slots_bytes(edge));
  for (const Edge& piece : pieces)
    to.inboxes.emplace_back(piece, ReceiverMemory{.arrivals = memory, .device = nullptr}, &to,
                            kept);
}

/// Adds the outboxes of one end.
void EdgeChannel::add_outboxes(std::span<const Edge> pieces, OpenConfiguration& to) {
  const Edge& edge = pieces.front();
  const std::size_t bytes = send_buffers_bytes(edge);
  const bool on_device = is_on_device(edge, to.spec.device);
  const auto memory = std::make_shared<tensor::Buffer>(
      on_device ? to.spec.device->allocate(bytes, tensor::MemoryKind::device)
                : tensor::allocate_host(bytes));
  for (const Edge& piece : pieces) {
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    if (on_device && !piece.is_local()) copies = device_edges_->sender_copies(piece);
    to.outboxes.emplace_back(piece, &to, memory, std::move(copies), pieces.size() > 1);
  }
}

/// Memory kept for this edge. Null if there is none that is large enough, or if messages of an
/// earlier configuration may still be written into it.
std::shared_ptr<SlotMemory> EdgeChannel::kept_memory(const Edge& edge,
                                                     const ConfigurationSpec& spec) const {
  const auto kept = std::ranges::find_if(spec.kept, [&edge](const KeptSlots& slots) {
    return slots.chunk == edge.chunk && slots.direction == edge.direction;
  });
  if (kept == spec.kept.end() || kept->memory->bytes() < slots_bytes(edge)) return nullptr;
  for (const auto& configuration : retired_)
    for (const Inbox& inbox : configuration->inboxes)
      if (inbox.memory().arrivals == kept->memory) return nullptr;
  return kept->memory->reclaim() ? kept->memory : nullptr;
}

void EdgeChannel::grant_slots() {
  for (const Inbox& inbox : configuration_->inboxes)
    if (!inbox.is_local()) grant_slots(inbox);
}

void EdgeChannel::grant_slots(const Inbox& inbox) {
  const Edge& edge = inbox.edge();
  const ReceiverMemory& memory = inbox.memory();
  const Grant grant{.edge = inbox.id(),
                    .dtype = edge.dtype,
                    .shape = edge.shape,
                    .slots = edge.slots,
                    .kept = inbox.is_kept(),
                    .segment = memory.arrivals ? memory.arrivals->name() : memory.device->name(),
                    .on_device = !memory.arrivals};
  link_.send_control(edge.from, header_of(grant));
}

void EdgeChannel::use_early_grants() {
  const std::vector<Header> early = std::move(early_grants_);
  early_grants_.clear();
  for (const Header& header : early) on_message(header, 0);
}

}  // namespace troupe::transport
