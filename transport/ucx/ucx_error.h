#pragma once

#include <ucs/type/status.h>

#include <string>

namespace troupe::transport {

/// Throws Error{unavailable} "<what>: <UCX's own words>" unless `status` is UCS_OK.
void check_ucx(ucs_status_t status, const std::string& what);

}  // namespace troupe::transport
