#include "transport/edges/edge_bytes.h"

#include "transport/memory/cache_line.h"

namespace troupe::transport {

std::size_t tensor_bytes(const Edge& edge) {
  return static_cast<std::size_t>(edge.shape.num_elements()) * tensor::size_of(edge.dtype);
}

std::size_t slot_stride(const Edge& edge) {
  return in_cache_lines(tensor_bytes(edge));
}

std::size_t slots_bytes(const Edge& edge) {
  const bool is_local = edge.from == edge.to;
  return is_local ? 0 : static_cast<std::size_t>(edge.slots) * slot_stride(edge);
}

std::size_t num_send_buffers(const Edge& edge) {
  const bool is_local = edge.from == edge.to;
  return static_cast<std::size_t>(is_local ? edge.slots + kSendBuffers : kSendBuffers);
}

std::size_t send_buffers_bytes(const Edge& edge) {
  return num_send_buffers(edge) * slot_stride(edge);
}

}  // namespace troupe::transport
