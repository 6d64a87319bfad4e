#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/errors/device_error.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/pinned_memory.h"

namespace troupe::test {

/// Memory that an op reads or writes.
struct Piece {
  Piece(const tensor::Tensor& tensor)  // NOLINT(google-explicit-constructor): written as a list
      : Piece(tensor.data, tensor ? tensor.num_bytes() : 0) {}
  Piece(const void* of, std::size_t length)
      : data(static_cast<std::byte*>(opened(of))),
        bytes(of ? length : 0),
        on_device(is_guarded(of)) {}
  std::byte* data;
  std::size_t bytes;
  bool on_device;
};

/// Whether a device works. As of a GPU, after one op that fails nothing more runs, no event is
/// reached, and every call that finds out throws. May be used by any thread.
class AsyncHealth {
 public:
  /// `fails` is asked by one thread at a time whether the op of this number, counted from 1, fails;
  /// null: none does.
  using Fails = std::function<bool(std::uint64_t op)>;
  explicit AsyncHealth(Fails fails) : fails_(std::move(fails)) {}

  /// Whether the next op may run. If not, it has failed, or one before it.
  bool admits_op() {
    const std::lock_guard lock(mutex_);
    if (failed_ || !fails_ || !fails_(++ops_)) return !failed_;
    failed_ = true;
    return false;
  }
  bool has_failed() const { return failed_; }
  void throw_if_failed() const {
    if (failed_)
      throw DeviceError("the asynchronous device failed in op " + std::to_string(ops_) +
                        "; this process ends");
  }

 private:
  const Fails fails_;
  std::mutex mutex_;  // guards ops_ until the device has failed
  std::uint64_t ops_ = 0;
  std::atomic<bool> failed_{false};
};

/// A stream whose ops run on a thread of its own, each after a random pause. They use memory of the
/// device, or of the host that is pinned.
class AsyncStream final : public tensor::Stream {
 public:
  AsyncStream(tensor::Device& owner, AsyncHealth& health, const PinnedMemory& pinned, int threads,
              std::uint64_t seed)
      : owner_(owner),
        health_(health),
        pinned_(pinned),
        random_(seed),
        longest_pause_(std::chrono::microseconds(std::array{0, 20, 100}[seed % 3])),
        cpu_(tensor::make_cpu_device(threads)),
        cpu_stream_(cpu_->make_stream()),
        thread_([this] { run(); }) {}
  ~AsyncStream() override {
    submit_mark({});
    thread_.join();
  }

  tensor::Device& device() override { return owner_; }
  void synchronize() override {
    std::promise<void> reached;
    submit_mark([&] { reached.set_value(); });
    reached.get_future().wait();
    health_.throw_if_failed();
  }
  AsyncHealth& health() { return health_; }

  /// Queues what runs even if the device has failed: what is no op, but tells that the stream has
  /// come here. An empty one ends the thread.
  void submit_mark(std::function<void()> mark) {
    const std::lock_guard lock(mutex_);
    ops_.push_back(std::move(mark));
    more_.notify_one();
  }
  void submit(std::function<void()> op) {
    health_.throw_if_failed();
    submit_mark([this, op = std::move(op)] {
      if (!health_.admits_op()) return;
      pause();
      op();
    });
  }
  /// Queues a call of `method` of `target` with the CPU's stream and the arguments. This code also
  /// touches the memory that the call reads and writes, because ThreadSanitizer does not see
  /// oneDNN's accesses.
  template <typename Target, typename Method, typename... Args>
  void submit(std::initializer_list<Piece> reads, std::initializer_list<Piece> writes,
              Target& target, Method method, const Args&... args) {
    for (const auto& pieces : {reads, writes}) std::ranges::for_each(pieces, refuse_unpinned());
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

  /// A GPU that meets such memory fails, and with it all that is queued.
  auto refuse_unpinned() const {
    return [this](const Piece& piece) {
      if (piece.bytes > 0 && !piece.on_device && !pinned_.admits(piece.data, piece.bytes))
        throw std::logic_error("an op of a device uses host memory that is not pinned");
    };
  }

  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [&] { return !ops_.empty(); });
      const auto op = std::move(ops_.front());
      ops_.pop_front();
      lock.unlock();
      if (!op) return;
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
  AsyncHealth& health_;
  const PinnedMemory& pinned_;
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
  explicit AsyncMark(AsyncHealth& health) : health_(health) {}

  /// On a device that has failed, only ends the waits.
  void reach() {
    std::unique_lock lock(mutex_);
    if (health_.has_failed()) calls_.clear();
    reached_s_ =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    is_reached_ = true;
    const auto calls = std::exchange(calls_, {});
    lock.unlock();
    changed_.notify_all();
    for (const auto& [call, argument] : calls) call(argument);
  }
  /// For a stream's thread.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_reached_; });
  }
  void synchronize() {
    wait();
    health_.throw_if_failed();
  }
  bool is_reached() const {
    health_.throw_if_failed();
    const std::lock_guard lock(mutex_);
    return is_reached_;
  }
  double reached_s() const {
    const std::lock_guard lock(mutex_);
    return reached_s_;
  }
  void on_reached(void (*call)(void*), void* argument) {
    health_.throw_if_failed();
    {
      const std::lock_guard lock(mutex_);
      if (!is_reached_) return calls_.emplace_back(call, argument), void();
    }
    call(argument);
  }

 private:
  AsyncHealth& health_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
  double reached_s_ = 0;
  std::vector<std::pair<void (*)(void*), void*>> calls_;
};

class AsyncEvent final : public tensor::Event {
 public:
  void record(tensor::Stream& stream) override {
    auto& marked = static_cast<AsyncStream&>(stream);
    marked.health().throw_if_failed();
    mark_ = std::make_shared<AsyncMark>(marked.health());
    marked.submit_mark([mark = mark_] { mark->reach(); });
  }
  void wait(tensor::Stream& stream) override {
    auto& waiting = static_cast<AsyncStream&>(stream);
    waiting.health().throw_if_failed();
    if (mark_) waiting.submit_mark([mark = mark_] { mark->wait(); });
  }
  void synchronize() override {
    if (mark_) mark_->synchronize();
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
