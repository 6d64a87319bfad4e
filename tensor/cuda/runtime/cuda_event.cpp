#include "tensor/cuda/runtime/cuda_event.h"

#include <chrono>
#include <utility>

#include "tensor/cuda/runtime/cuda_error.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

CudaStream& cuda_stream(Stream& stream) {
  return static_cast<CudaStream&>(stream);
}

}  // namespace

EventHandle::EventHandle(bool timed, bool sleeps) {
  const unsigned timing = timed ? cudaEventDefault : cudaEventDisableTiming;
  const unsigned waiting = sleeps ? cudaEventBlockingSync : cudaEventDefault;
  check(cudaEventCreateWithFlags(&handle_, timing | waiting), "cudaEventCreateWithFlags");
}

EventHandle::~EventHandle() {
  (void)cudaEventDestroy(handle_);  // of a context that failed, too: nobody could act on an error
}

DeviceClock::DeviceClock(double age_s) : age_s_(age_s), newest_(begin()) {
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

std::shared_ptr<const DeviceClock::Reference> DeviceClock::reference() {
  const std::lock_guard lock(mutex_);
  if (next_ && next_->host_s > 0) newest_ = std::exchange(next_, nullptr);
  if (!next_ && now_s() - newest_->host_s >= age_s_) next_ = begin();
  return newest_;
}

std::shared_ptr<DeviceClock::Reference> DeviceClock::begin() {
  auto reference = std::make_shared<Reference>();
  check(cudaEventRecord(reference->event.get(), stream_.get()), "cudaEventRecord");
  // The call may come when this clock is gone. If the GPU fails it never comes.
  auto* const told = new std::shared_ptr<Reference>(reference);
  const auto stamp = [](void* argument) {
    const std::unique_ptr<std::shared_ptr<Reference>> reached(
        static_cast<std::shared_ptr<Reference>*>(argument));
    (*reached)->host_s = now_s();
  };
  check(cudaLaunchHostFunc(stream_.get(), stamp, told), "cudaLaunchHostFunc");
  return reference;
}

CudaEvent::CudaEvent(int device, DeviceClock* clock)
    : device_(device), clock_(clock), handle_(clock != nullptr) {}

void CudaEvent::record(Stream& stream) {
  CudaStream& marked = cuda_stream(stream);
  const cudaStream_t handle = marked.handle();
  if (clock_) reference_ = clock_->reference();
  check(cudaEventRecord(handle_.get(), handle), "cudaEventRecord");
  host_calls_ = marked.host_calls();
}

void CudaEvent::wait(Stream& stream) {
  if (!host_calls_) return;
  check(cudaStreamWaitEvent(cuda_stream(stream).handle(), handle_.get()), "cudaStreamWaitEvent");
}

void CudaEvent::synchronize() {
  if (!host_calls_) return;
  use_device(device_);
  check(cudaEventSynchronize(handle_.get()), "cudaEventSynchronize");
}

bool CudaEvent::done() const {
  if (!host_calls_) return true;
  use_device(device_);
  const cudaError_t state = cudaEventQuery(handle_.get());
  if (state == cudaErrorNotReady) return false;
  check(state, "cudaEventQuery");
  return true;
}

void CudaEvent::on_reached(void (*call)(void*), void* argument) {
  if (done()) return call(argument);
  check(cudaStreamWaitEvent(host_calls_->get(), handle_.get()), "cudaStreamWaitEvent");
  check(cudaLaunchHostFunc(host_calls_->get(), call, argument), "cudaLaunchHostFunc");
}

double CudaEvent::reached_s() const {
  TROUPE_ASSERT(reference_);
  use_device(device_);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, reference_->event.get(), handle_.get()),
        "cudaEventElapsedTime");
  return reference_->host_s + static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace troupe::tensor::cuda
