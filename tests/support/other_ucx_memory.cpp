#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <cstdlib>
#include <string>

// A library for LD_PRELOAD, with which a program is told of other memory that UCX reaches:
// TROUPE_TEST_UCX_MEMORY is "cuda", or "host" for no memory of GPUs.

extern "C" ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t* attributes) {
  auto* const real =
      reinterpret_cast<decltype(&ucp_context_query)>(dlsym(RTLD_NEXT, "ucp_context_query"));
  const ucs_status_t status = real(context, attributes);
  if (!(attributes->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)) return status;
  const char* const memory = std::getenv("TROUPE_TEST_UCX_MEMORY");
  attributes->memory_types &= ~UCS_BIT(UCS_MEMORY_TYPE_CUDA);
  if (memory && std::string(memory) == "cuda")
    attributes->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
  return status;
}
