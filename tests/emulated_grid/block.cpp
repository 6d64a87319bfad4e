#include "tests/emulated_grid/block.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/emulated_grid/emulated_grid.h"

namespace troupe::emulated_grid {
namespace {

// Thrown out of a wait in a thread that ends because of another one's fault.
struct Cancelled {};

constexpr std::size_t kGuardBytes = 64;  // behind dynamic shared memory
constexpr std::byte kGuardValue{0xa5};

thread_local Block* running_block = nullptr;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kGuard = 0;  // AddressSanitizer sees what comes behind a heap block
#else
constexpr std::size_t kGuard = kGuardBytes;
#endif

}  // namespace

Block::Block(Grid& grid, const LaunchSize& size, const std::function<void()>& kernel)
    : grid_(grid),
      size_(size),
      kernel_(kernel),
      threads_(std::size_t{size.threads.x} * size.threads.y * size.threads.z) {
  const auto fibers = grid.fibers(threads_.size());
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const auto number = static_cast<unsigned>(i);
    const unsigned row = number / size.threads.x;
    threads_[i].block = this;
    threads_[i].fiber = fibers[i].get();
    threads_[i].number = number;
    threads_[i].index = {number % size.threads.x, row % size.threads.y, row / size.threads.y};
  }
  running_block = this;
}

Block::~Block() {
  running_block = nullptr;
}

Block& Block::current() {
  return *running_block;
}

void Block::run(const dim3& index) {
  blockIdx = {index.x, index.y, index.z};
  shared_.clear();
  make_dynamic_shared();
  configuration_ = 0;
  ready_.clear();
  for (Thread& thread : threads_) {
    thread.state = State::ready;
    thread.clock = {};
    thread.clock[thread.number % kWarp] = 1;
    thread.fiber->start(run_thread, &thread);
    ready_.push_back(thread.number);
  }
  try {
    run_ready_threads();
    while (std::ranges::any_of(threads_, [](auto& t) { return t.state != State::ended; })) {
      pass_barrier();
      run_ready_threads();
    }
    check_dynamic_shared();
  } catch (...) {
    cancel();
    throw;
  }
}

void Block::run_thread(void* argument) {
  auto& thread = *static_cast<Thread*>(argument);
  Block& block = *thread.block;
  try {
    if (!block.cancelled_) block.kernel_();
  } catch (const Cancelled&) {
  } catch (...) {
    block.fault_ = std::current_exception();
  }
  thread.state = State::ended;
}

void Block::resume(Thread& thread) {
  running_ = &thread;
  threadIdx = thread.index;
  thread.fiber->resume();
}

void Block::wait(State state) {
  Thread& thread = *running_;
  thread.state = state;
  thread.fiber->pause();
  if (cancelled_) throw Cancelled();
}

void Block::run_ready_threads() {
  while (!ready_.empty()) {
    const std::size_t i = grid_.draw(ready_.size(), 0);
    const unsigned number = ready_[i];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(i));
    resume(threads_[number]);
    if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
  }
}

void Block::pass_barrier() {
  const Thread* first = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.state == State::ended) continue;
    if (thread.state != State::at_barrier) deadlock();
    if (first && !(first->place == thread.place)) deadlock();
    first = &thread;
  }
  ++configuration_;
  for (Thread& thread : threads_) {
    if (thread.state == State::ended) continue;
    thread.state = State::ready;
    ready_.push_back(thread.number);
  }
}

void Block::cancel() {
  cancelled_ = true;
  for (Thread& thread : threads_) {
    if (thread.state != State::ended) resume(thread);
  }
  cancelled_ = false;
  fault_ = nullptr;
}

void Block::barrier(const Place& place) {
  running_->place = place;
  wait(State::at_barrier);
}

void Block::warp(const WarpOperation& operation, void* lane,
                 const std::function<void(void* const* lanes)>& compute) {
  Thread& self = *running_;
  if (!(operation.mask >> self.number % kWarp & 1)) {
    throw Fault(fmt::format("{}: thread {} calls {} with mask {:#x}, in which its own lane is not",
                            to_string(operation.place), self.number, operation.name,
                            operation.mask));
  }
  self.operation = operation;
  self.place = operation.place;
  self.lane = lane;
  void* lanes[kWarp] = {};
  for (unsigned i = 0; i < kWarp; ++i) {
    if (!(operation.mask >> i & 1)) continue;
    const Thread* other = lane_of(self, i);
    if (!other || !joined(self, *other)) return wait(State::in_warp_operation);
    lanes[i] = other->lane;
  }
  compute(lanes);
  for (unsigned i = 0; i < kWarp; ++i) {
    Thread* other = lanes[i] ? lane_of(self, i) : nullptr;
    if (!other || other == &self) continue;
    other->state = State::ready;
    ready_.push_back(other->number);
  }
}

void Block::sync_warp(const WarpOperation& operation) {
  warp(operation, running_->clock.data(), [](void* const* lanes) {
    WarpClock latest{};
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!lanes[i]) continue;
      const auto* clock = static_cast<const std::uint32_t*>(lanes[i]);
      for (unsigned j = 0; j < kWarp; ++j) latest[j] = std::max(latest[j], clock[j]);
    }
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!lanes[i]) continue;
      auto* clock = static_cast<std::uint32_t*>(lanes[i]);
      std::ranges::copy(latest, clock);
      ++clock[i];
    }
  });
}

SharedMemory& Block::shared(const char* name, const Place& place, const char* type,
                            std::size_t size, long long n) {
  std::size_t bytes = 0;
  for (SharedMemory& memory : shared_) {
    if (memory.is(place, type, n)) return memory;
    bytes += memory.bytes();
  }
  SharedMemory& memory = shared_.emplace_back(name, place, type, size, n);
  check_shared(place, name, bytes + memory.bytes());
  return memory;
}

void Block::check_shared(const Place& place, const char* name, std::size_t of_arrays) const {
  using namespace tensor::cuda;
  const std::size_t dynamic = size_.shared_bytes;
  const std::size_t most = dynamic > 0 ? kMostStaticBesideDynamic : kSharedUnasked;
  if (of_arrays > most) {
    throw Fault(
        fmt::format("{}: with {} a block has {} bytes of static shared memory, more than {}",
                    to_string(place), name, of_arrays, most));
  }
  // A launch asks for what a block may have at most, or for nothing.
  const std::size_t limit = dynamic > kDynamicUnasked ? grid_.shared_limit() : kSharedUnasked;
  if (of_arrays + dynamic > limit) {
    throw Fault(
        fmt::format("{}: with {} a block has {} bytes of static and {} of dynamic shared "
                    "memory, together more than {}",
                    to_string(place), name, of_arrays, dynamic, limit));
  }
}

Access Block::access() const {
  return {.thread = running_->number, .configuration = configuration_, .clock = &running_->clock};
}

Block::Thread* Block::lane_of(const Thread& thread, unsigned lane) {
  const std::size_t number = thread.number / kWarp * kWarp + lane;
  return number < threads_.size() ? &threads_[number] : nullptr;
}

bool Block::joined(const Thread& thread, const Thread& other) const {
  return &thread == &other ||
         (other.state == State::in_warp_operation && other.place == thread.place &&
          other.operation.mask == thread.operation.mask &&
          std::strcmp(other.operation.name, thread.operation.name) == 0);
}

std::string Block::describe(const Thread& thread) const {
  if (thread.state == State::ended) return fmt::format("thread {} has ended", thread.number);
  const std::string where =
      fmt::format("thread {} waits at {}", thread.number, to_string(thread.place));
  if (thread.state == State::at_barrier) return where;
  return fmt::format("{} in {} with mask {:#x}", where, thread.operation.name,
                     thread.operation.mask);
}

void Block::deadlock() {
  for (const Thread& thread : threads_) {
    if (thread.state != State::in_warp_operation) continue;
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!(thread.operation.mask >> i & 1)) continue;
      const Thread* other = lane_of(thread, i);
      if (other && joined(thread, *other)) continue;
      throw Fault(fmt::format("deadlock: {}, {}", describe(thread),
                              other ? describe(*other) : fmt::format("which has no lane {}", i)));
    }
  }
  const auto waits = [](const Thread& t) { return t.state != State::ended; };
  const auto first = std::ranges::find_if(threads_, waits);
  const auto other = std::ranges::find_if(threads_, [&](const Thread& thread) {
    return waits(thread) && !(thread.place == first->place);
  });
  throw Fault(fmt::format("deadlock: {}, {}", describe(*first), describe(*other)));
}

void Block::make_dynamic_shared() {
  const std::size_t bytes = size_.shared_bytes;
  dynamic_.reset(new std::byte[bytes + kGuard]);
  std::memset(dynamic_.get(), 0xff, bytes);
  std::fill_n(dynamic_.get() + bytes, kGuard, kGuardValue);
}

void Block::check_dynamic_shared() const {
  const std::byte* guard = dynamic_.get() + size_.shared_bytes;
  if (std::all_of(guard, guard + kGuard, [](std::byte b) { return b == kGuardValue; })) return;
  throw Fault(fmt::format("block ({}, {}, {}) wrote beyond its {} bytes of dynamic shared memory",
                          blockIdx.x, blockIdx.y, blockIdx.z, size_.shared_bytes));
}

}  // namespace troupe::emulated_grid
