#include <algorithm>
#include <iterator>
#include <utility>

#include "tensor/errors/error.h"
#include "transport/edges/edge_channel.h"

// How the channel begins a configuration: its boxes, and the slots that it grants.

namespace troupe::transport {

void EdgeChannel::open(const ConfigurationSpec& spec) {
  retire_configuration();
  auto configuration = make_configuration(spec);
  std::unique_lock<Link> lock(link_);
  board_.set_ranks(spec.ranks);
  configuration_ = std::move(configuration);
  counts_.edges.clear();
  for (const Edge& edge : spec.edges) {
    if (edge.to == spec.rank) configuration_->inboxes.push_back(make_inbox(edge, spec));
    if (edge.from != spec.rank || edge.is_local()) continue;
    const auto same = [&edge](const EdgeCount& count) { return count.to == edge.to; };
    if (std::ranges::none_of(counts_.edges, same))
      counts_.edges.push_back({.from = edge.from, .to = edge.to, .bytes = 0});
  }
  closed_.clear();
  grant_slots();
  use_early_grants();
}

/// Ends the configuration, and destroys those whose memory nobody uses: without the lock, because a
/// device may be waited for before it takes memory back.
void EdgeChannel::retire_configuration() {
  std::vector<std::unique_ptr<OpenConfiguration>> unused;
  const std::unique_lock<Link> lock(link_);
  closed_ = kNotOpened;
  if (configuration_) retired_.push_back(std::move(configuration_));
  const auto first = std::ranges::stable_partition(retired_, [](const auto& configuration) {
                       return configuration->in_flight > 0;
                     }).begin();
  std::move(first, retired_.end(), std::back_inserter(unused));
  retired_.erase(first, retired_.end());
}

/// A configuration with its send buffers, which may be memory of the device.
std::unique_ptr<OpenConfiguration> EdgeChannel::make_configuration(const ConfigurationSpec& spec) {
  auto configuration = std::make_unique<OpenConfiguration>();
  configuration->spec = spec;
  configuration->inboxes.reserve(spec.edges.size());
  configuration->outboxes.reserve(
      spec.edges.size());  // buffers point to their outbox: none may move
  for (const Edge& edge : spec.edges) {
    TROUPE_ASSERT((edge.from == spec.rank || edge.to == spec.rank) && edge.slots > 0 &&
                  tensor_bytes(edge) > 0);
    if (edge.from == spec.rank)
      configuration->outboxes.emplace_back(edge, configuration.get(), spec.device);
  }
  return configuration;
}

Inbox EdgeChannel::make_inbox(const Edge& edge, const ConfigurationSpec& spec) {
  if (edge.is_local()) return {edge, nullptr, configuration_.get(), false};
  if (auto memory = kept_memory(edge, spec))
    return {edge, std::move(memory), configuration_.get(), true};
  return {edge, link_.allocate(edge.from, slots_bytes(edge)), configuration_.get(), false};
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
      if (inbox.memory() == kept->memory) return nullptr;
  return kept->memory->reclaim() ? kept->memory : nullptr;
}

void EdgeChannel::grant_slots() {
  for (const Inbox& inbox : configuration_->inboxes) {
    if (!inbox.memory()) continue;
    const Edge& edge = inbox.edge();
    const Grant grant{.edge = inbox.id(),
                      .dtype = edge.dtype,
                      .shape = edge.shape,
                      .slots = edge.slots,
                      .kept = inbox.is_kept(),
                      .segment = inbox.memory()->name()};
    link_.send_control(edge.from, header_of(grant));
  }
}

void EdgeChannel::use_early_grants() {
  const std::vector<Header> early = std::move(early_grants_);
  early_grants_.clear();
  for (const Header& header : early) on_message(header, 0);
}

}  // namespace troupe::transport
