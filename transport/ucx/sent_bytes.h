#pragma once

#include <cstdint>

namespace troupe::transport {

/// Bytes of tensors and of parts of them that a process has sent, over the network or in shared
/// memory, by where the receivers are.
struct SentBytes {
  std::uint64_t on_this_host = 0;
  std::uint64_t to_other_hosts = 0;
};

}  // namespace troupe::transport
