#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensor/device/process_group.h"
#include "tensor/errors/error.h"
#include "tests/support/guarded_memory.h"

// A process group of threads, for tests: plain loops over the members' own memory. Sums are in
// ascending member order, in float32 for float32 and bfloat16.

namespace troupe::tensor {

/// When a collective of a ThreadGroup moves its data. Both are legal, and each finds a use that the
/// other forgives: at_call an output that is still read, at_wait an input that is overwritten or an
/// output that is read before anybody waited.
enum class Moves { at_call, at_wait };

/// What a member asked for, by kind of collective: the number of calls, and the bytes of their
/// inputs on this member (for a broadcast, of x).
struct Traffic {
  int calls = 0;
  std::int64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};

/// One member's part of a collective.
struct Call {
  Operation operation = Operation::barrier;
  std::vector<Tensor> in, out;
  std::vector<std::int64_t> counts;  // of an exchange: what each member is sent
  std::vector<std::int64_t> receive_counts;
  Reduction reduction = Reduction::sum;
  int root = 0;
  bool finished = false;
  double finished_s = 0;
};

/// Where the members of a group meet.
class Meeting {
 public:
  explicit Meeting(int size) : calls(static_cast<std::size_t>(size)) {}

  /// Blocks until all members have come; throws Error{unavailable} if the group has ended.
  void meet() {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (++here_ == calls.size()) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round_ != round || !fault_.empty(); });
    if (!fault_.empty()) throw Error(ErrorKind::unavailable, fault_);
  }
  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (fault_.empty()) fault_ = reason;
    all_here_.notify_all();
  }
  std::string fault() {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

  std::vector<const Call*> calls;  // each member's; written before a meeting, read after it

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t here_ = 0;
  std::uint64_t round_ = 0;
  std::string fault_;
};

// Numbers go through double, which is exact for all types but integers beyond 2^53.

inline double element(const Tensor& of, std::int64_t i) {
  const Tensor x = test::opened(of);
  switch (x.dtype) {
    case DType::f32:
      return x.as<float>()[i];
    case DType::bf16:
      return to_float(x.as<BFloat16>()[i]);
    case DType::i32:
      return x.as<std::int32_t>()[i];
    case DType::i64:
      return std::bit_cast<double>(x.as<std::int64_t>()[i]);  // moved, and never added
    default:
      return x.as<double>()[i];
  }
}

inline void set_element(const Tensor& of, std::int64_t i, double value) {
  const Tensor x = test::opened(of);
  switch (x.dtype) {
    case DType::f32:
      x.as<float>()[i] = static_cast<float>(value);
      break;
    case DType::bf16:
      x.as<BFloat16>()[i] = to_bfloat16(static_cast<float>(value));
      break;
    case DType::i32:
      x.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
      break;
    case DType::i64:
      x.as<std::int64_t>()[i] = std::bit_cast<std::int64_t>(value);
      break;
    default:
      x.as<double>()[i] = value;
  }
}

/// One member of a group of threads. It may be used by its own thread alone.
class ThreadGroup final : public ProcessGroup {
 public:
  ThreadGroup(std::shared_ptr<Meeting> meeting, int member, Moves moves)
      : meeting_(std::move(meeting)), member_(member), moves_(moves) {}

  int size() const override { return static_cast<int>(meeting_->calls.size()); }
  int member() const override { return member_; }

  /// Ops of a host have run when they return; a stream that runs them later is waited for.
  std::unique_ptr<Work> start(Stream& stream, const CollectiveCall& asked) override {
    stream.synchronize();
    Call call = own_copy(asked);
    check(call);
    Traffic& traffic = traffic_[name_of(call.operation)];
    ++traffic.calls;
    for (const Tensor& x : call.in) traffic.bytes += static_cast<std::int64_t>(x.num_bytes());
    waiting_.push_back(std::make_shared<Call>(std::move(call)));
    auto work = std::make_unique<ThreadWork>(*this, waiting_.back());
    if (moves_ == Moves::at_call) work->wait();
    return work;
  }

  void abort(const std::string& reason) override { meeting_->abort(reason); }
  std::string fault() const override { return meeting_->fault(); }

  /// What this member asked for so far, by name of the operation.
  const std::map<std::string, Traffic>& traffic() const { return traffic_; }

 private:
  class ThreadWork final : public Work {
   public:
    ThreadWork(ThreadGroup& group, std::shared_ptr<Call> call)
        : group_(group), call_(std::move(call)) {}
    ~ThreadWork() override {
      if (!call_->finished) group_.abort("a collective was dropped before it was done");
    }
    bool done() const override { return call_->finished; }
    void wait() override {
      while (!call_->finished) group_.run_oldest();
    }
    void wait(Stream&) override { wait(); }
    double finished_s() const override { return call_->finished_s; }

   private:
    ThreadGroup& group_;
    std::shared_ptr<Call> call_;
  };

  std::size_t me() const { return static_cast<std::size_t>(member_); }
  std::vector<std::int64_t> even(std::int64_t count) const {
    return std::vector<std::int64_t>(meeting_->calls.size(), count);
  }
  static std::vector<std::int64_t> copy(std::span<const std::int64_t> counts) {
    return {counts.begin(), counts.end()};
  }
  static std::int64_t sum(std::span<const std::int64_t> counts) {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) total += count;
    return total;
  }
  static std::int64_t before(std::span<const std::int64_t> counts, std::size_t member) {
    return sum(counts.first(member));
  }
  void require(bool condition, const std::string& what) const {
    if (!condition) throw Error(ErrorKind::internal, what + ": elements do not fit");
  }
  /// Whether a member's part lies apart from the whole, or at its place in it.
  bool in_its_place(const Tensor& part, const Tensor& whole,
                    std::span<const std::int64_t> counts) const {
    const auto* p = part.as<std::byte>();
    const auto* w = whole.as<std::byte>();
    if (p + part.num_bytes() <= w || w + whole.num_bytes() <= p) return true;
    return p == w + before(counts, me()) * static_cast<std::int64_t>(size_of(whole.dtype));
  }

  /// With the counts of an even call, and the input of one that is in place.
  Call own_copy(const CollectiveCall& asked) const {
    const bool is_in_place =
        asked.operation == Operation::all_reduce || asked.operation == Operation::broadcast;
    const auto& in = is_in_place ? asked.out : asked.in;
    Call call{.operation = asked.operation,
              .in = {in.begin(), in.end()},
              .out = {asked.out.begin(), asked.out.end()},
              .counts = copy(asked.send_counts),
              .receive_counts = copy(asked.receive_counts),
              .reduction = asked.reduction,
              .root = asked.root};
    if (asked.operation == Operation::all_gather) {
      call.counts = call.receive_counts;
      if (call.counts.empty()) call.counts = even(call.in[0].num_elements());
    } else if (asked.operation == Operation::reduce_scatter && call.counts.empty()) {
      call.counts = even(call.out[0].num_elements());
    } else if (asked.operation == Operation::all_to_all && call.counts.empty()) {
      require(call.in[0].num_elements() % size() == 0, "all-to-all");
      call.counts = call.receive_counts = even(call.in[0].num_elements() / size());
    }
    return call;
  }
  void check(const Call& call) const {
    const auto elements_of = [](const std::vector<Tensor>& x) { return x[0].num_elements(); };
    const std::string name = name_of(call.operation);
    if (call.operation == Operation::all_gather) {
      require(
          elements_of(call.in) == call.counts[me()] && elements_of(call.out) == sum(call.counts),
          name);
      require(in_its_place(call.in[0], call.out[0], call.counts), name + " over its own input");
    } else if (call.operation == Operation::reduce_scatter) {
      require(
          elements_of(call.out) == call.counts[me()] && elements_of(call.in) == sum(call.counts),
          name);
      require(in_its_place(call.out[0], call.in[0], call.counts), name + " over its own input");
    } else if (call.operation == Operation::all_to_all) {
      require(elements_of(call.in) == sum(call.counts) &&
                  elements_of(call.out) == sum(call.receive_counts),
              name);
    }
  }

  /// Collectives run in the order in which they were started, whatever is waited for.
  void run_oldest() {
    const std::shared_ptr<Call> call = waiting_.front();
    meeting_->calls[me()] = call.get();
    meeting_->meet();
    const std::vector<std::vector<double>> results = results_of(*call);
    meeting_->meet();
    for (std::size_t k = 0; k < results.size(); ++k) {
      for (std::size_t i = 0; i < results[k].size(); ++i)
        set_element(call->out[k], static_cast<std::int64_t>(i), results[k][i]);
    }
    call->finished = true;
    call->finished_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    waiting_.pop_front();
  }

  std::vector<std::vector<double>> results_of(const Call& call) const {
    for (const Call* other : meeting_->calls) {
      require(other->operation == call.operation && other->in.size() == call.in.size() &&
                  other->reduction == call.reduction && other->root == call.root,
              "members call different collectives");
    }
    switch (call.operation) {
      case Operation::all_reduce:
        return reduced(call);
      case Operation::all_gather:
        return {gathered(call)};
      case Operation::reduce_scatter:
        return {reduced_part(call, 0, before(call.counts, me()), call.counts[me()])};
      case Operation::all_to_all:
        return {exchanged(call)};
      case Operation::broadcast:
        return {part(*meeting_->calls[static_cast<std::size_t>(call.root)], 0,
                     call.in[0].num_elements())};
      case Operation::barrier:
        break;
    }
    return {};
  }

  std::vector<std::vector<double>> reduced(const Call& call) const {
    std::vector<std::vector<double>> results;
    for (std::size_t k = 0; k < call.in.size(); ++k)
      results.push_back(reduced_part(call, k, 0, call.in[k].num_elements()));
    return results;
  }

  std::vector<double> reduced_part(const Call& call, std::size_t k, std::int64_t begin,
                                   std::int64_t count) const {
    std::vector<double> result;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      double total = element(meeting_->calls[0]->in[k], i);
      for (std::size_t member = 1; member < meeting_->calls.size(); ++member)
        total = combined(call, total, element(meeting_->calls[member]->in[k], i));
      result.push_back(call.reduction == Reduction::average ? total / size() : total);
    }
    return result;
  }

  static double combined(const Call& call, double a, double b) {
    if (call.reduction == Reduction::max) return std::max(a, b);
    const DType dtype = call.in[0].dtype;
    const bool narrow = dtype == DType::f32 || dtype == DType::bf16;
    return narrow ? static_cast<double>(static_cast<float>(a) + static_cast<float>(b)) : a + b;
  }

  std::vector<double> part(const Call& call, std::int64_t begin, std::int64_t count) const {
    std::vector<double> result;
    for (std::int64_t i = begin; i < begin + count; ++i) result.push_back(element(call.in[0], i));
    return result;
  }

  std::vector<double> gathered(const Call& call) const {
    std::vector<double> result;
    for (std::size_t member = 0; member < meeting_->calls.size(); ++member) {
      const auto piece = part(*meeting_->calls[member], 0, call.counts[member]);
      result.insert(result.end(), piece.begin(), piece.end());
    }
    return result;
  }

  std::vector<double> exchanged(const Call& call) const {
    std::vector<double> result;
    for (std::size_t member = 0; member < meeting_->calls.size(); ++member) {
      const Call& sender = *meeting_->calls[member];
      require(sender.counts[me()] == call.receive_counts[member], "all_to_all");
      const auto piece = part(sender, before(sender.counts, me()), sender.counts[me()]);
      result.insert(result.end(), piece.begin(), piece.end());
    }
    return result;
  }

  std::shared_ptr<Meeting> meeting_;
  const int member_;
  const Moves moves_;
  std::deque<std::shared_ptr<Call>> waiting_;
  std::map<std::string, Traffic> traffic_;
};

}  // namespace troupe::tensor
