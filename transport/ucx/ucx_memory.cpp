#include "transport/ucx/ucx_memory.h"

#include <ucp/api/ucp.h>

#include <memory>
#include <type_traits>

#include "transport/ucx/ucx_worker.h"

namespace troupe::transport {

bool ucx_reaches_cuda() {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  ucp_context_h raw = nullptr;
  check_ucx(ucp_init(&params, nullptr, &raw), "UCX cannot open its transports");
  const std::unique_ptr<std::remove_pointer_t<ucp_context_h>, decltype(&ucp_cleanup)> context(
      raw, &ucp_cleanup);
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  check_ucx(ucp_context_query(raw, &attributes), "UCX does not tell the memory that it reaches");
  return (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

}  // namespace troupe::transport
