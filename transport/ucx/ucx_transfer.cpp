#include "transport/ucx/ucx_transfer.h"

namespace troupe::transport {
namespace {

/// All memory is host memory: saying so spares UCX the detection.
ucp_request_param_t request_for(Transfer& transfer) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.user_data = &transfer;
  return param;
}

void finish(Transfer& transfer, ucs_status_t status) {
  transfer.on_done(transfer, status == UCS_OK);
}

/// UCX calls no callback for a request that is done at once.
void finish_if_done(ucs_status_ptr_t result, Transfer& transfer) {
  if (!UCS_PTR_IS_PTR(result)) finish(transfer, UCS_PTR_STATUS(result));
}

}  // namespace

void ucx_send(ucp_ep_h endpoint, MessageId id, std::span<const std::byte> header,
              std::span<const std::byte> payload, Transfer& transfer) {
  ucp_request_param_t param = request_for(transfer);
  param.cb.send = [](void* request, ucs_status_t status, void* user_data) {
    ucp_request_free(request);
    finish(*static_cast<Transfer*>(user_data), status);
  };
  finish_if_done(ucp_am_send_nbx(endpoint, static_cast<unsigned>(id), header.data(), header.size(),
                                 payload.data(), payload.size(), &param),
                 transfer);
}

void ucx_receive(ucp_worker_h worker, void* descriptor, std::span<std::byte> out,
                 Transfer& transfer) {
  ucp_request_param_t param = request_for(transfer);
  param.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
    ucp_request_free(request);
    finish(*static_cast<Transfer*>(user_data), status);
  };
  finish_if_done(ucp_am_recv_data_nbx(worker, descriptor, out.data(), out.size(), &param),
                 transfer);
}

void UcxControl::send(ucp_ep_h endpoint, const Header& header) {
  if (free_.empty()) {
    messages_.push_back(std::make_unique<Message>());
    free_.reserve(messages_.size());
    free_.push_back(messages_.back().get());
  }
  Message& message = *free_.back();
  free_.pop_back();
  message.owner = this;
  message.on_done = [](Transfer& transfer, bool) {
    auto& control = *static_cast<UcxControl*>(transfer.owner);
    control.free_.push_back(static_cast<Message*>(&transfer));
  };
  const std::size_t bytes = encode(header, message.header);
  ucx_send(endpoint, id_, {message.header.data(), bytes}, {}, message);
}

}  // namespace troupe::transport
