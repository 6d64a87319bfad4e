#include "tests/host_cudart/machine.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace troupe::host_cudart {
namespace {

constexpr std::size_t kGpus = 2;
constexpr int kUnaskedConnections = 8, kMostConnections = 32;  // CUDA C++ Programming Guide

int connections_of_environment() {
  const char* const asked = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return asked ? std::clamp(std::atoi(asked), 1, kMostConnections) : kUnaskedConnections;
}

bool is_eager() {
  const char* const asked = std::getenv("CUDA_MODULE_LOADING");
  return asked && std::string(asked) == "EAGER";
}

}  // namespace

Machine::Machine(test::HostCudart::Runs runs)
    : runs_(runs), queues_(kGpus), made_streams_(kGpus, 0) {
  legacy_.queue = &legacy_queue_;
}

Machine::~Machine() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::unique_ptr<Machine>& Machine::current() {
  static auto machine = std::make_unique<Machine>(test::HostCudart::Runs::when_told);
  return machine;
}

// --- calls

Machine::Call Machine::begin_call(const char* name) {
  Call call{Lock(mutex_), cudaSuccess};
  if (!std::exchange(was_asked_, true)) loads_at_once_ = is_eager();
  call.code = wait(call, name, [this] { return loading_.empty(); });
  return call;
}

cudaError_t Machine::wait(Call& call, const char* name, const std::function<bool()>& ready) {
  const auto is_over = [&] { return is_stopped_ || ready(); };
  if (runs_when_told()) {
    while (!is_over() && run_all(call.lock)) continue;
    if (!is_over()) stop(std::string(name) + " waits for ever; " + text_of_queues());
  } else if (!changed_.wait_for(call.lock, settings.deadline, is_over)) {
    stop(name + (" waits; " + text_of_queues()));
  }
  return is_stopped_ ? cudaErrorLaunchTimeout : cudaSuccess;
}

void Machine::stop(const std::string& why) {
  if (deadlock_.empty()) deadlock_ = why;
  is_stopped_ = true;
  changed_.notify_all();
}

/// Who waits for what.
std::string Machine::text_of_queues() const {
  std::string text =
      loading_.empty() ? "" : "the context's lock is held while " + loading_ + " is loaded; ";
  for (std::size_t gpu = 0; gpu < queues_.size(); ++gpu)
    for (std::size_t i = 0; i < queues_[gpu].size(); ++i)
      if (const Work* const first = queues_[gpu][i]->first())
        text += "GPU " + std::to_string(gpu) + " queue " + std::to_string(i) + " is at " +
                first->what + "; ";
  return text;
}

std::string Machine::deadlock() {
  const std::lock_guard lock(mutex_);
  return deadlock_;
}

// --- the context

void Machine::make_context() {
  if (!queues_.front().empty()) return;
  const int connections = connections_of_environment();
  for (auto& queues : queues_)
    for (int i = 0; i < connections; ++i) queues.push_back(std::make_unique<HardwareQueue>());
  if (runs_when_told()) return;
  threads_.emplace_back([this] { loop(legacy_queue_); });
  for (const auto& queues : queues_)
    for (const auto& queue : queues) threads_.emplace_back([this, &queue] { loop(*queue); });
}

bool Machine::is_loading() {
  const std::lock_guard lock(mutex_);
  return !loading_.empty();
}

int Machine::connections() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(queues_.front().size());
}

cudaStream_t Machine::make_stream(int device) {
  make_context();
  const auto gpu = static_cast<std::size_t>(device);
  const auto& queues = queues_[gpu];
  HardwareQueue& queue = *queues[made_streams_[gpu]++ % queues.size()];
  return *streams_.insert(new CUstream_st{.device = device, .queue = &queue}).first;
}

void Machine::destroy_stream(cudaStream_t stream) {
  streams_.erase(stream);
  delete stream;
}

cudaError_t Machine::load(Call& call, const std::string& kernel) {
  if (loads_at_once_ || loaded_.contains(kernel)) return cudaSuccess;
  loading_ = kernel;
  const cudaError_t code = wait(call, "the loading of a kernel", [this] { return is_idle(); });
  loading_.clear();
  loaded_.insert(kernel);
  changed_.notify_all();
  return code;
}

// --- the queues

void Machine::give(CUstream_st& stream, std::string what, std::function<bool()> may_run,
                   std::function<void()> run) {
  stream.queue->push({std::move(what), std::move(may_run), std::move(run), stream.pending});
  changed_.notify_all();
}

bool Machine::are_streams_idle() const {
  const auto is_idle = [](const auto& queue) { return queue->is_idle(); };
  return std::ranges::all_of(
      queues_, [&](const auto& queues) { return std::ranges::all_of(queues, is_idle); });
}

void Machine::run_first(Lock& lock, HardwareQueue& queue) {
  const std::function<void()> run = queue.begin();
  lock.unlock();
  run();
  lock.lock();
  queue.end();
  changed_.notify_all();
}

void Machine::loop(HardwareQueue& queue) {
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_stopped_ || queue.can_run(); });
    if (is_stopped_) return;
    run_first(lock, queue);
  }
}

bool Machine::run_queue(Lock& lock, HardwareQueue& queue) {
  bool moved = false;
  for (; queue.can_run(); moved = true) run_first(lock, queue);
  return moved;
}

bool Machine::run_all(Lock& lock) {
  bool moved = run_queue(lock, legacy_queue_);
  for (const auto& queues : queues_)
    for (const auto& queue : queues) moved |= run_queue(lock, *queue);
  return moved;
}

void Machine::tell() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Machine::run() {
  Lock lock(mutex_);
  while (run_all(lock)) continue;
}

}  // namespace troupe::host_cudart

namespace troupe::test {

using host_cudart::Machine;

HostCudart& HostCudart::reset(Runs runs) {
  Machine::current() = std::make_unique<Machine>(runs);
  return get();
}

HostCudart& HostCudart::get() {
  return Machine::current()->settings;
}

void HostCudart::run() {
  Machine::current()->run();
}

void HostCudart::tell() {
  Machine::current()->tell();
}

std::string HostCudart::deadlock() {
  return Machine::current()->deadlock();
}

bool HostCudart::is_loading() {
  return Machine::current()->is_loading();
}

int HostCudart::hardware_queues() {
  return Machine::current()->connections();
}

}  // namespace troupe::test
