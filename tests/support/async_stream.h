#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/device.h"
#include "tests/support/guarded_memory.h"

namespace troupe::test {

/// Memory that an op reads or writes.
struct Piece {
  Piece(const tensor::Tensor& tensor)  // NOLINT(google-explicit-constructor): written as a list
      : Piece(tensor.data, tensor ? tensor.num_bytes() : 0) {}
  Piece(const void* of, std::size_t length)
      : data(static_cast<std::byte*>(opened(of))), bytes(of ? length : 0) {}
  std::byte* data;
  std::size_t bytes;
};

/// A stream whose ops run on a thread of its own, each after a random pause.
class AsyncStream final : public tensor::Stream {
 public:
  AsyncStream(tensor::Device& owner, int threads, std::uint64_t seed)
      : owner_(owner),
        random_(seed),
        longest_pause_(std::chrono::microseconds(std::array{0, 20, 100}[seed % 3])),
        cpu_(tensor::make_cpu_device(threads)),
        cpu_stream_(cpu_->make_stream()),
        thread_([this] { run(); }) {}
  ~AsyncStream() override {
    submit({});
    thread_.join();
  }

  tensor::Device& device() override { return owner_; }
  void synchronize() override {
    std::promise<void> reached;
    submit([&] { reached.set_value(); });
    reached.get_future().wait();
  }

  /// Queues an op; an empty one ends the thread.
  void submit(std::function<void()> op) {
    const std::lock_guard lock(mutex_);
    ops_.push_back(std::move(op));
    more_.notify_one();
  }
  /// Queues a call of `method` of `target` with the CPU's stream and the arguments. This code also
  /// touches the memory that the call reads and writes, because ThreadSanitizer does not see
  /// oneDNN's accesses.
  template <typename Target, typename Method, typename... Args>
  void submit(std::initializer_list<Piece> reads, std::initializer_list<Piece> writes,
              Target& target, Method method, const Args&... args) {
    submit(
        [this, reads = std::vector(reads), writes = std::vector(writes), &target, method, args...] {
          for (const Piece& piece : reads)
            each_line(piece, [](volatile std::byte& x) { return x; });
          for (const Piece& piece : writes) each_line(piece, [](volatile std::byte& x) { x = x; });
          std::invoke(method, target, *cpu_stream_, opened_argument(args)...);
        });
  }
  /// The ops of this stream's own CPU device, which no other stream uses.
  tensor::Ops& ops() { return cpu_->ops(); }

 private:
  template <typename Touch>
  static void each_line(const Piece& piece, Touch&& touch) {
    constexpr std::size_t kLine = 64;
    for (std::size_t i = 0; i < piece.bytes; i += kLine) touch(piece.data[i]);
  }

  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [&] { return !ops_.empty(); });
      const auto op = std::move(ops_.front());
      ops_.pop_front();
      lock.unlock();
      if (!op) return;
      pause();
      op();
    }
  }
  void pause() {
    if (random_() % 4 != 0) return;
    const double share = std::uniform_real_distribution<>(0, 1)(random_);
    const auto end = std::chrono::steady_clock::now() + share * longest_pause_;
    while (std::chrono::steady_clock::now() < end) {
      // Not a yield, which takes a busy machine's whole time slice.
    }
  }

  tensor::Device& owner_;
  std::mt19937_64 random_;  // of the thread
  const std::chrono::duration<double> longest_pause_;
  const std::unique_ptr<tensor::Device> cpu_;
  const std::unique_ptr<tensor::Stream> cpu_stream_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> ops_;
  std::thread thread_;  // last: it uses the rest
};

/// A mark in a stream that the stream's thread reaches, and what is to be called then.
class AsyncMark {
 public:
  void reach() {
    std::unique_lock lock(mutex_);
    reached_s_ =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    is_reached_ = true;
    const auto calls = std::exchange(calls_, {});
    lock.unlock();
    changed_.notify_all();
    for (const auto& [call, argument] : calls) call(argument);
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_reached_; });
  }
  bool is_reached() const {
    const std::lock_guard lock(mutex_);
    return is_reached_;
  }
  double reached_s() const {
    const std::lock_guard lock(mutex_);
    return reached_s_;
  }
  void on_reached(void (*call)(void*), void* argument) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_reached_) return calls_.emplace_back(call, argument), void();
    }
    call(argument);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
  double reached_s_ = 0;
  std::vector<std::pair<void (*)(void*), void*>> calls_;
};

class AsyncEvent final : public tensor::Event {
 public:
  void record(tensor::Stream& stream) override {
    mark_ = std::make_shared<AsyncMark>();
    static_cast<AsyncStream&>(stream).submit([mark = mark_] { mark->reach(); });
  }
  void wait(tensor::Stream& stream) override {
    if (mark_) static_cast<AsyncStream&>(stream).submit([mark = mark_] { mark->wait(); });
  }
  void synchronize() override {
    if (mark_) mark_->wait();
  }
  bool done() const override { return !mark_ || mark_->is_reached(); }
  void on_reached(void (*call)(void*), void* argument) override {
    mark_ ? mark_->on_reached(call, argument) : call(argument);
  }
  double reached_s() const override { return mark_->reached_s(); }

 private:
  std::shared_ptr<AsyncMark> mark_;
};

}  // namespace troupe::test
