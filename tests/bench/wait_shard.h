#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "stages/decoder/chunk/activations.h"
#include "tensor/device/device.h"
#include "tests/bench/wait_stage.h"
#include "transport/node/ucx_node.h"

namespace troupe::bench {

/// The other shard of a stage of two, or the other replica of two that share experts out, in
/// spirit: a thread with a node of its own that computes nothing and joins each collective `delay`
/// after it was started.
class LateShard {
 public:
  using Clock = std::chrono::steady_clock;
  /// `node` is that of `rank` and outlives the shard. `configuration` differs for each shard of a
  /// node.
  LateShard(transport::UcxNode& node, int rank, std::uint32_t configuration, Clock::duration delay)
      : delay_(delay),
        first_node_(node),
        number_(kFirstNumber + rank),
        node_(transport::UcxNode::create({.environment = transport::prepare_ucx()})) {
    node.connect(number_, configuration, node_->address());
    node_->connect(rank, configuration, node.address());
    for (Ends& ends : groups_) {
      const int id = static_cast<int>(&ends - groups_.data());
      ends.first = node.make_group(1, configuration, id, "shards", {rank, number_}, rank);
      ends.other = node_->make_group(1, configuration, id, "shards", {rank, number_}, number_);
    }
    thread_ = std::jthread([this](const std::stop_token& stop) { join_all(stop); });
  }
  ~LateShard() {
    thread_.request_stop();
    thread_.join();
    first_node_.disconnect(number_);
  }
  LateShard(const LateShard&) = delete;
  LateShard& operator=(const LateShard&) = delete;

  /// Starts a collective without data, of forwards or of backwards.
  std::unique_ptr<tensor::Work> start(stages::Pass pass) {
    Ends& ends = groups_[pass == stages::Pass::forward ? 0 : 1];
    auto work = ends.first->barrier(*stream_);
    {
      const std::lock_guard lock(mutex_);
      started_.push_back({&ends, Clock::now() + delay_});
    }
    changed_.notify_one();
    return work;
  }

 private:
  struct Ends {
    std::unique_ptr<tensor::ProcessGroup> first, other;
  };
  struct Started {
    Ends* ends = nullptr;
    Clock::time_point due;
  };
  static constexpr int kFirstNumber = 1000;  ///< above all ranks

  void join_all(const std::stop_token& stop) {
    const auto stream = device_->make_stream();
    for (;;) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !started_.empty(); })) return;
      const Started next = started_.front();
      started_.pop_front();
      lock.unlock();
      std::this_thread::sleep_until(next.due);
      next.ends->other->barrier(*stream)->wait();
    }
  }

  const Clock::duration delay_;
  transport::UcxNode& first_node_;
  const int number_;
  const std::unique_ptr<transport::UcxNode> node_;
  const std::unique_ptr<tensor::Device> device_ = tensor::make_cpu_device(1);
  const std::unique_ptr<tensor::Stream> stream_ = device_->make_stream();
  std::array<Ends, 2> groups_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Started> started_;
  std::jthread thread_;
};

/// A shard that waits instead of computing, with the collectives of sequence parallelism between
/// its nodes, or a replica with those of shared experts. Products share the time of an action;
/// norms take none.
class WaitShard final : public test::NullStage {
 public:
  /// What travels between the two.
  enum class With { shard, experts };
  /// The times are those of one chunk's actions; a chunk has `layers` layers. `other` outlives the
  /// stage.
  WaitShard(int num_chunks, int layers, tensor::Shape edge, const WaitStage::Times& times,
            LateShard& other, With with = With::shard)
      : NullStage(
            num_chunks, edge, {.first_layer = 0, .end_layer = layers},
            with == With::shard ? stages::Sharding{.size = 2, .sequence_parallel = true}
                                : stages::Sharding{.ep = 2},
            std::vector<char>(with == With::experts ? static_cast<std::size_t>(layers) : 0, 1)),
        products_(2 * layers),
        times_(times),
        other_(other) {}

  void begin_step() override { wait_s_ = 0; }
  double collective_wait_s() const override { return wait_s_; }
  const tensor::Work* awaited(stages::Pass pass, int chunk, int slot, int node) const override {
    const auto found = pending_.find({chunk, slot});
    if (found == pending_.end()) return nullptr;
    for (const auto which : node_at(pass, node).waits)
      if (which && found->second.*which && !(found->second.*which)->done())
        return (found->second.*which).get();
    return nullptr;
  }
  void forward_node(const stages::ForwardCall& call, int node) override {
    run(stages::Pass::forward, node, pending_[{call.chunk, call.slot}]);
  }
  void backward_node(const stages::BackwardCall& call, int node) override {
    run(call.pass, node, pending_[{call.chunk, call.slot}]);
  }

 private:
  const stages::Node& node_at(stages::Pass pass, int node) const {
    return row(pass).nodes[static_cast<std::size_t>(node)];
  }
  void run(stages::Pass pass, int number, stages::PendingCollectives& pending) {
    const stages::Node& node = node_at(pass, number);
    for (const auto which : node.waits) {
      if (!which || !(pending.*which)) continue;
      const auto begin = LateShard::Clock::now();
      std::exchange(pending.*which, nullptr)->wait();
      wait_s_ += std::chrono::duration<double>(LateShard::Clock::now() - begin).count();
    }
    if (node.starts)
      pending.*node.starts = other_.start(pass);
    else if (!row(pass).ends[static_cast<std::size_t>(number)].brief)
      pause(time_of(node.kind) / products_);
  }
  double time_of(stages::Node::Kind kind) const {
    if (kind == stages::Node::Kind::forward) return times_.forward;
    return kind == stages::Node::Kind::input_gradient ? times_.input_gradient
                                                      : times_.weight_gradient;
  }

  const int products_;  ///< nodes of each kind that take time: attention and feed-forward
  const WaitStage::Times times_;
  LateShard& other_;
  std::map<std::pair<int, int>, stages::PendingCollectives> pending_;  // by chunk and slot
  double wait_s_ = 0;
};

}  // namespace troupe::bench
