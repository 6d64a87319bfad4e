#include "tests/host_cudart/hardware_queue.h"

#include <utility>

namespace troupe::host_cudart {

void HardwareQueue::push(Work work) {
  ++*work.pending;
  works_.push_back(std::move(work));
}

std::function<void()> HardwareQueue::begin() {
  is_running_ = true;
  return works_.front().run;
}

void HardwareQueue::end() {
  --*works_.front().pending;
  works_.pop_front();
  is_running_ = false;
}

}  // namespace troupe::host_cudart
