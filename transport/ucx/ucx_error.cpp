#include "transport/ucx/ucx_error.h"

#include "tensor/error.h"

namespace troupe::transport {

void check_ucx(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK)
    throw Error(ErrorKind::unavailable, what + ": " + ucs_status_string(status));
}

}  // namespace troupe::transport
