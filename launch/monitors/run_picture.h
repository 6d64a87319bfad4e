#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::launch {

/// What a monitor knows of a run: its status when the monitor attached, updated by events. Both
/// come as JSON from the run; a field that is missing or of another type counts as empty.
class RunPicture {
 public:
  struct Rank {
    int replica = 0;
    int stage = 0;
    int shard = 0;
    std::int64_t pid = 0;
    std::string host;
    std::string state;
    std::string waiting_for;
    std::uint64_t resident_bytes = 0;
    double busy_s = 0;  ///< busy time in the newest step
    double idle_s = 0;
  };
  /// The most losses that are kept. When there are more, every second one is removed.
  static constexpr std::size_t kMaxLosses = 4096;
  static constexpr std::size_t kMaxRecentEvents = 200;

  explicit RunPicture(const nlohmann::json& status);
  void apply(const nlohmann::json& event);
  void count_dropped(std::uint64_t events) { dropped_ += events; }

  const std::string& name() const { return name_; }
  const std::string& state() const { return state_; }
  std::int64_t step() const { return step_; }
  std::int64_t epoch() const { return epoch_; }
  int pp() const;
  int dp() const;
  int tp() const;
  const std::map<int, Rank>& ranks() const { return ranks_; }
  /// The losses in order of steps, evenly thinned out.
  const std::vector<double>& losses() const { return losses_; }
  double loss() const { return loss_; }
  double grad_norm() const { return grad_norm_; }
  double tokens_per_s() const { return tokens_per_s_; }
  double step_s() const { return step_s_; }
  /// Lines for people, newest last, about all events but steps and periodic ones.
  const std::deque<std::string>& recent_events() const { return recent_events_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  void apply_step(const nlohmann::json& event);
  void apply_ranks(const std::vector<nlohmann::json>& ranks);
  void add_loss(double loss);
  void add_recent_event(const nlohmann::json& event);

  std::string name_, state_;
  std::int64_t step_ = 0, epoch_ = 0;
  std::map<int, Rank> ranks_;
  std::vector<double> losses_;
  std::int64_t loss_stride_ = 1;  // distance between kept losses, in steps
  std::int64_t losses_seen_ = 0;
  double loss_ = 0, grad_norm_ = 0, tokens_per_s_ = 0, step_s_ = 0;
  std::deque<std::string> recent_events_;
  std::uint64_t dropped_ = 0;
};

}  // namespace troupe::launch
