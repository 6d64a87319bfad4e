// Calls that make, mark and ask events.

#include <utility>

#include "tests/host_cudart/calling_thread.h"
#include "tests/host_cudart/machine.h"

using troupe::host_cudart::calling_threads_gpu;
using troupe::host_cudart::is_mine;
using troupe::host_cudart::Machine;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event =
      new CUevent_st{.device = calling_threads_gpu(), .timed = !(flags & cudaEventDisableTiming)};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto call = Machine::current()->begin_call("cudaEventDestroy");
  delete event;
  return call.code;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cudaEventRecord");
  if (call.code != cudaSuccess) return call.code;
  auto& next = machine.settings.next_record;
  if (next != cudaSuccess) return std::exchange(next, cudaSuccess);
  if (!is_mine(stream->device) || !is_mine(event->device)) return cudaErrorInvalidResourceHandle;
  event->queue = stream->queue;
  const auto reach = [state = event->state, mark = ++event->state->marks, &machine] {
    state->reached = mark;
    state->stamp_ms = machine.settings.stamp_ms;
    return true;
  };
  machine.give(*stream, "a mark", reach, [] {});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto call = Machine::current()->begin_call("cudaEventQuery");
  if (call.code != cudaSuccess) return call.code;
  if (!is_mine(event->device)) return cudaErrorInvalidResourceHandle;
  return event->state->reached == event->state->marks ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Machine& machine = *Machine::current();
  auto call = machine.begin_call("cudaEventSynchronize");
  if (!is_mine(event->device)) return cudaErrorInvalidResourceHandle;
  if (machine.runs_when_told() && event->queue) machine.run_queue(call.lock, *event->queue);
  return machine.wait(
      call, "cudaEventSynchronize",
      [state = event->state, mark = event->state->marks] { return state->reached >= mark; });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const auto call = Machine::current()->begin_call("cudaEventElapsedTime");
  if (!from->timed || !to->timed || !is_mine(to->device)) return cudaErrorInvalidResourceHandle;
  *milliseconds = to->state->stamp_ms - from->state->stamp_ms;
  return call.code;
}
}
