#pragma once

namespace troupe::transport {

/// Whether the UCX that the program has found can send from and receive into the memory of CUDA's
/// devices, with the transports that the environment allows. Nothing does so: what devices send to
/// other hosts is staged in pinned memory. Throws Error{unavailable} if UCX cannot be asked.
bool ucx_reaches_cuda();

}  // namespace troupe::transport
