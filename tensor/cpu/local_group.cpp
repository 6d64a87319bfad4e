#include "tensor/cpu/local_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tensor/cpu/ops/ordered_reduction.h"
#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

/// Whether two members' parts of a collective fit each other.
bool agree(const CollectiveCall& a, std::size_t member_a, const CollectiveCall& b,
           std::size_t member_b) {
  const auto are_alike = [](const Tensor& x, const Tensor& y) {
    return x.dtype == y.dtype && x.num_elements() == y.num_elements();
  };
  if (a.operation != b.operation || a.reduction != b.reduction || a.root != b.root) return false;
  switch (a.operation) {
    case Operation::all_reduce:
    case Operation::broadcast:
      return std::ranges::equal(a.in, b.in, are_alike);
    case Operation::all_gather:
      return a.in[0].dtype == b.in[0].dtype &&
             std::ranges::equal(a.receive_counts, b.receive_counts);
    case Operation::reduce_scatter:
      return are_alike(a.in[0], b.in[0]) && std::ranges::equal(a.send_counts, b.send_counts);
    case Operation::all_to_all:
      return a.in[0].dtype == b.in[0].dtype &&
             a.send_counts[member_b] == b.receive_counts[member_a] &&
             b.send_counts[member_a] == a.receive_counts[member_b];
    case Operation::barrier:
      return true;
  }
  return false;
}

/// Where the members bring their calls of a collective, and leave once each has its result.
class Meeting {
 public:
  explicit Meeting(int size) : calls_(static_cast<std::size_t>(size)) {}

  std::size_t size() const { return calls_.size(); }
  /// The call of a member, from bring() to leave().
  const CollectiveCall& call(std::size_t member) const { return *calls_[member]; }

  /// Blocks until all members have brought their calls, which fit each other. Throws
  /// Error{unavailable} if the group ends before.
  void bring(int member, const CollectiveCall& call) {
    std::unique_lock lock(mutex_);
    calls_[static_cast<std::size_t>(member)] = &call;
    if (fault_.empty() && here_ + 1 == size()) check_calls();
    if (!fault_.empty() || !meet(lock, [this] { return !fault_.empty(); }))
      throw Error(ErrorKind::unavailable, fault_);
  }
  /// Blocks until all members have come, even if the group ends: none takes away the memory that
  /// another one reads or writes.
  void leave() {
    std::unique_lock lock(mutex_);
    meet(lock, [] { return false; });
  }
  void end(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (fault_.empty()) fault_ = reason;
    changed_.notify_all();
  }
  std::string fault() const {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

 private:
  void check_calls() {
    for (std::size_t a = 0; a < size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (!agree(call(a), a, call(b), b)) {
          fault_ = fmt::format("members {} and {} of a group call {} and {}, which do not fit", b,
                               a, name_of(call(b).operation), name_of(call(a).operation));
          changed_.notify_all();
          return;
        }
  }
  /// Whether all have come before `ends` was true.
  template <typename Ends>
  bool meet(std::unique_lock<std::mutex>& lock, const Ends& ends) {
    const std::size_t round = round_;
    if (++here_ == size()) {
      here_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || ends(); });
    return round_ != round;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const CollectiveCall*> calls_;  ///< by member
  std::size_t here_ = 0;                      ///< members that have come in this round
  std::size_t round_ = 0;
  std::string fault_;
};

/// A collective whose call has returned.
class Done final : public Work {
 public:
  bool done() const override { return true; }
  void wait() override {}
  void wait(Stream&) override {}
  double finished_s() const override { return finished_s_; }

 private:
  const double finished_s_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
};

class LocalGroup final : public ProcessGroup {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int member)
      : meeting_(std::move(meeting)),
        member_(member),
        counts_(meeting_->size()),
        summands_(meeting_->size()) {}

  int size() const override { return static_cast<int>(meeting_->size()); }
  int member() const override { return member_; }
  std::unique_ptr<Work> start(Stream& stream, const CollectiveCall& asked) override {
    const CollectiveCall call = completed(asked, member_, counts_);
    stream.synchronize();
    meeting_->bring(member_, call);
    run(call);
    meeting_->leave();
    return std::make_unique<Done>();
  }
  void abort(const std::string& reason) override { meeting_->end(reason); }
  std::string fault() const override { return meeting_->fault(); }

 private:
  std::size_t me() const { return static_cast<std::size_t>(member_); }

  void run(const CollectiveCall& call) {
    switch (call.operation) {
      case Operation::all_reduce:
        for (std::size_t i = 0; i < call.in.size(); ++i) all_reduce_slice(call, i);
        return;
      case Operation::reduce_scatter:
        return reduce(call, 0, elements_before(call.send_counts, me()), call.out[0]);
      case Operation::all_gather:
      case Operation::all_to_all:
        for (std::size_t from = 0; from < meeting_->size(); ++from) fetch(call, from);
        return;
      case Operation::broadcast: {
        const Tensor& x = call.out[0];
        const CollectiveCall& roots = meeting_->call(static_cast<std::size_t>(call.root));
        return copy_elements(roots.in[0], 0, x, 0, x.num_elements());
      }
      case Operation::barrier:
        return;
    }
  }

  /// `out` = the reduction of as many elements of each member's input `which`, from `begin` on.
  void reduce(const CollectiveCall& call, std::size_t which, std::int64_t begin,
              const Tensor& out) {
    const DType dtype = call.in[which].dtype;
    const std::size_t offset = static_cast<std::size_t>(begin) * size_of(dtype);
    for (std::size_t i = 0; i < summands_.size(); ++i)
      summands_[i] = meeting_->call(i).in[which].as<std::byte>() + offset;
    const auto count = static_cast<std::size_t>(out.num_elements());
    if (out.dtype == dtype)
      ordered_reduction(summands_, out.as<std::byte>(), count, dtype, call.reduction);
    else
      ordered_reduction_to_f32(summands_, out.as<std::byte>(), count, call.reduction);
  }
  /// Each member reduces a slice, in the memory of the first, and gives it to all.
  void all_reduce_slice(const CollectiveCall& call, std::size_t which) {
    const std::int64_t elements = call.in[which].num_elements();
    const std::int64_t begin = elements * member_ / size();
    const std::int64_t count = elements * (member_ + 1) / size() - begin;
    const Tensor& first = meeting_->call(0).out[which];
    reduce(call, which, begin,
           {first.as<std::byte>() + static_cast<std::size_t>(begin) * size_of(first.dtype),
            first.dtype,
            {count}});
    for (std::size_t other = 1; other < meeting_->size(); ++other)
      copy_elements(first, begin, meeting_->call(other).out[which], begin, count);
  }
  /// Copies what another member has for this one.
  void fetch(const CollectiveCall& call, std::size_t from) const {
    const CollectiveCall& other = meeting_->call(from);
    const bool sends_all = call.operation == Operation::all_gather;
    copy_elements(other.in[0], sends_all ? 0 : elements_before(other.send_counts, me()),
                  call.out[0], elements_before(call.receive_counts, from),
                  call.receive_counts[from]);
  }

  const std::shared_ptr<Meeting> meeting_;
  const int member_;
  std::vector<std::int64_t> counts_;        ///< of an even collective
  std::vector<const std::byte*> summands_;  ///< by member, of the reduction under way
};

}  // namespace

std::vector<std::unique_ptr<ProcessGroup>> make_local_group(int size) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<ProcessGroup>> members;
  for (int member = 0; member < size; ++member)
    members.push_back(std::make_unique<LocalGroup>(meeting, member));
  return members;
}

}  // namespace troupe::tensor
