#include "transport/ucx/ucx_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::transport {
namespace {

constexpr std::size_t kMaxAddressBytes = 4096;
/// A forced close waits for no peer; this limit bounds a wait that should not happen.
constexpr std::chrono::milliseconds kCloseLimit{2000};
/// How long the end of this process's endpoints waits for connections that are being made. UCX
/// 1.13's TCP ends a process whose peer closes the socket just as it accepts the connection
/// ("wireup_ep->pending_count == 0").
constexpr std::chrono::milliseconds kConnectLimit{500};

}  // namespace

UcxPeers::~UcxPeers() {
  const auto is_connecting = [](const auto& known) {
    return known.second->connecting && !known.second->failed;
  };
  worker_.progress_until([&] { return std::ranges::none_of(peers_, is_connecting); },
                         kConnectLimit);
  for (auto& [rank, peer] : peers_) close(std::move(peer));
}

void UcxPeers::connect(int rank, std::uint64_t incarnation, const std::string& address,
                       bool on_this_host) {
  if (address.empty() || address.size() > kMaxAddressBytes) {
    throw Error(ErrorKind::unavailable,
                fmt::format("rank {} gave a UCX address of {} bytes, expected 1 to {}", rank,
                            address.size(), kMaxAddressBytes));
  }
  if (const auto known = peers_.find(rank); known != peers_.end()) {
    const Peer& peer = *known->second;
    if (peer.incarnation == incarnation && peer.address == address && !peer.failed) return;
    disconnect(rank);
  }
  auto peer = std::make_unique<Peer>(Peer{.owner = this,
                                          .rank = rank,
                                          .incarnation = incarnation,
                                          .address = address,
                                          .on_this_host = on_this_host});
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer->address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &on_error;
  params.err_handler.arg = peer.get();
  check_ucx(ucp_ep_create(worker_.use(), &params, &peer->endpoint),
            fmt::format("cannot connect to rank {}", rank));
  watch_connecting(*peer);
  peers_[rank] = std::move(peer);
}

/// A flush ends once the connection is made, or has failed.
void UcxPeers::watch_connecting(Peer& peer) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = &peer;
  param.cb.send = [](void* request, ucs_status_t, void* user_data) {
    ucp_request_free(request);
    static_cast<Peer*>(user_data)->connecting = false;
  };
  peer.connecting = UCS_PTR_IS_PTR(ucp_ep_flush_nbx(peer.endpoint, &param));
}

void UcxPeers::disconnect(int rank) {
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return;
  std::unique_ptr<Peer> peer = std::move(found->second);
  peers_.erase(found);
  if (!std::exchange(peer->failed, true)) on_lost_(rank, "it was disconnected");
  close(std::move(peer));
}

ucp_ep_h UcxPeers::endpoint(int rank) const {
  const auto found = peers_.find(rank);
  return found == peers_.end() || found->second->failed ? nullptr : found->second->endpoint;
}

bool UcxPeers::share_memory_with(int rank) const {
  const auto found = peers_.find(rank);
  return found != peers_.end() && found->second->on_this_host && worker_.shares_memory();
}

void UcxPeers::count_sent(int rank, std::size_t bytes) {
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return;
  (found->second->on_this_host ? sent_.on_this_host : sent_.to_other_hosts) += bytes;
}

void UcxPeers::on_error(void* argument, ucp_ep_h, ucs_status_t status) {
  auto& peer = *static_cast<Peer*>(argument);
  // An endpoint must not be closed within its error callback: connect(), disconnect() or the
  // destructor closes it later.
  if (!std::exchange(peer.failed, true)) peer.owner->on_lost_(peer.rank, ucs_status_string(status));
}

void UcxPeers::close(std::unique_ptr<Peer> peer) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  worker_.use();
  const ucs_status_ptr_t request = ucp_ep_close_nbx(peer->endpoint, &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  const auto closed = [request] { return ucp_request_check_status(request) != UCS_INPROGRESS; };
  if (!worker_.progress_until(closed, kCloseLimit)) unclosed_.push_back(std::move(peer));
  ucp_request_free(request);
}

}  // namespace troupe::transport
