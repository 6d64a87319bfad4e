#include "transport/collectives/group_hub.h"

#include <algorithm>
#include <utility>

#include "transport/collectives/ucx_group.h"

namespace troupe::transport {
namespace {

/// Requests kept for groups that this node has not made yet: more than the members of any cluster
/// have under way.
constexpr std::size_t kMaxEarly = 4096;

}  // namespace

GroupHub::GroupHub(UcxWorker& worker, UcxPeers& peers, WaitBoard& board, LinkEvents& events,
                   std::shared_ptr<SlotPool> slots)
    : worker_(worker), peers_(peers), board_(board), events_(events), slots_(std::move(slots)) {}

void GroupHub::start() {
  worker_.on_message(static_cast<unsigned>(MessageId::group), &GroupHub::on_message, this);
  worker_.set_work(*this);
}

// --- jobs

std::optional<Collective::Job> GroupHub::begin_job() {
  for (UcxGroup* group : groups_)
    if (const auto job = group->begin_job()) return job;
  return std::nullopt;
}

bool GroupHub::do_job(std::unique_lock<UcxWorker>& lock) {
  const auto job = begin_job();
  if (!job) return false;
  lock.unlock();
  Collective::run(*job);
  lock.lock();
  Collective::end(*job);
  return true;
}

bool GroupHub::begin() {
  background_job_ = begin_job();
  return background_job_.has_value();
}

// --- groups and their messages

void GroupHub::send_control(ucp_ep_h endpoint, const Header& header) {
  worker_.use();
  control_.send(endpoint, header);
}

void GroupHub::add(UcxGroup& group) {
  const GroupKey key = group.key();
  if (key.run != newest_.run || key.configuration > newest_.configuration) {
    newest_ = key;
    ended_.clear();
  }
  groups_.push_back(&group);
  const std::vector<Early> early = std::exchange(early_, {});
  for (const Early& message : early) {
    if (message.key == key) {
      group.on_request(message.request);
    } else if (is_past(message.key)) {
      events_.on_stale();
    } else {
      early_.push_back(message);
    }
  }
}

void GroupHub::remove(UcxGroup& group) {
  std::erase(groups_, &group);
  // Late requests for it are then dropped, and not kept for a group that this node will make.
  ended_.push_back(group.key());
}

void GroupHub::on_peer_lost(int rank, const std::string& why) {
  for (UcxGroup* group : groups_) group->on_peer_lost(rank, why);
}

UcxGroup* GroupHub::find(const GroupKey& key) {
  const auto found =
      std::ranges::find_if(groups_, [&key](const UcxGroup* group) { return group->key() == key; });
  return found == groups_.end() ? nullptr : *found;
}

bool GroupHub::is_past(const GroupKey& key) const {
  if (newest_.run == 0) return false;  // no group was made yet: it may belong to the first
  return key.run != newest_.run || key.configuration < newest_.configuration ||
         std::ranges::find(ended_, key) != ended_.end();
}

ucs_status_t GroupHub::on_message(void* hub, const void* header, std::size_t header_length,
                                  void* data, std::size_t length,
                                  const ucp_am_recv_param_t* param) {
  return static_cast<GroupHub*>(hub)->take({static_cast<const std::byte*>(header), header_length},
                                           {static_cast<std::byte*>(data), length},
                                           param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
}

ucs_status_t GroupHub::take(std::span<const std::byte> header_bytes, std::span<std::byte> payload,
                            bool is_rendezvous) {
  const auto header = decode(header_bytes);
  const auto* message = header ? std::get_if<CollectiveMessage>(&header->body) : nullptr;
  if (!message) {
    events_.on_unreadable(header_bytes.size());
    return UCS_OK;
  }
  // Members send data only on request. Data for a group that is not here was asked for by one that
  // has ended, so only requests may be early.
  const GroupKey key{
      .run = header->run, .configuration = header->configuration, .id = message->group};
  UcxGroup* group = find(key);
  const bool is_request = message->kind == CollectiveKind::request;
  if (group && message->kind == CollectiveKind::called) {
    group->on_called({header->sender, *message});
    return UCS_OK;
  }
  if (group && !is_request)
    return group->on_data({header->sender, *message}, payload, is_rendezvous);
  if (group) {
    group->on_request({header->sender, *message});
  } else if (!is_request || is_past(key) || early_.size() == kMaxEarly) {
    events_.on_stale();
  } else {
    early_.push_back({key, {header->sender, *message}});
  }
  return UCS_OK;
}

}  // namespace troupe::transport
