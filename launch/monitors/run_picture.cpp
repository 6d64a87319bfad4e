#include "launch/monitors/run_picture.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "launch/monitors/event_fields.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// A time of day in the viewer's time zone: "14:03:59".
std::string clock_text(double time) {
  if (!(time > 0 && time < 1e11)) return "--:--:--";
  return fmt::format("{:%H:%M:%S}", fmt::localtime(static_cast<std::time_t>(time)));
}

/// A rank's replica or stage, clamped to a range that holds any mesh.
int place_of(const json& rank, const char* field) {
  return static_cast<int>(std::clamp<std::int64_t>(integer_of(rank, field), 0, 1 << 20));
}

/// The content of an event as a phrase for people, without its kind.
std::string details(const std::string& kind, const json& event) {
  if (kind == "evaluation") return fmt::format("loss {:.4f}", number_of(event, "eval_loss"));
  if (kind == "checkpoint") return text_of(event, "path");
  if (kind == "phase") return text_of(event, "phase");
  if (kind == "membership")
    return fmt::format(
        "pp {} x dp {}{}, {}", integer_of(event, "pp"), integer_of(event, "dp"),
        integer_of(event, "tp") > 1 ? fmt::format(" x tp {}", integer_of(event, "tp")) : "",
        text_of(event, "schedule"));
  if (kind == "straggler")
    return fmt::format("replica {} stage {}: {:.1f} ms a step, usually {:.1f}",
                       integer_of(event, "replica"), integer_of(event, "stage"),
                       1e3 * number_of(event, "busy_s"), 1e3 * number_of(event, "usual_busy_s"));
  std::string out = text_of(event, "cause");
  if (event.contains("stall_s"))
    out += fmt::format(", stall {:.2f} s", number_of(event, "stall_s"));
  return out;
}

}  // namespace

RunPicture::RunPicture(const json& status)
    : name_(text_of(status, "run")),
      state_(text_of(status, "state")),
      step_(integer_of(status, "step")),
      epoch_(integer_of(status, "epoch")) {
  apply_ranks(objects_of(status, "ranks"));
}

void RunPicture::apply(const json& event) {
  const std::string kind = text_of(event, "kind");
  epoch_ = integer_of(event, "epoch", epoch_);
  if (kind == "step") return apply_step(event);
  if (kind == "activity") {
    const auto known = ranks_.find(static_cast<int>(integer_of(event, "rank", -1)));
    if (known == ranks_.end()) return;
    Rank& rank = known->second;
    rank.state = text_of(event, "state");
    rank.waiting_for = text_of(event, "waiting_for");
    rank.resident_bytes = static_cast<std::uint64_t>(integer_of(event, "resident_bytes"));
    return;
  }
  if (kind == "membership") {
    ranks_.clear();
    apply_ranks(objects_of(event, "ranks"));
  }
  if (kind == "ended") state_ = "ended";
  // Events that come many times a second would push all others out of the list.
  if (kind != "actions" && kind != "director" && kind != "tensor") add_recent_event(event);
}

void RunPicture::apply_step(const json& event) {
  state_ = "running";
  step_ = integer_of(event, "step", step_);
  loss_ = number_of(event, "loss");
  grad_norm_ = number_of(event, "grad_norm");
  tokens_per_s_ = number_of(event, "tokens_per_s");
  step_s_ = number_of(event, "step_s");
  add_loss(loss_);
  for (const json& of_stage : objects_of(event, "stages"))
    for (auto& [number_of_rank, rank] : ranks_)
      if (rank.replica == integer_of(of_stage, "replica") &&
          rank.stage == integer_of(of_stage, "stage") &&
          rank.shard == integer_of(of_stage, "shard")) {
        rank.busy_s = number_of(of_stage, "busy_s");
        rank.idle_s = number_of(of_stage, "idle_s");
      }
}

void RunPicture::apply_ranks(const std::vector<json>& ranks) {
  for (const json& from : ranks) {
    Rank& rank = ranks_[static_cast<int>(integer_of(from, "rank"))];
    rank.replica = place_of(from, "replica");
    rank.stage = place_of(from, "stage");
    rank.shard = place_of(from, "shard");
    rank.pid = integer_of(from, "pid");
    rank.host = text_of(from, "host");
    rank.state = text_of(from, "state");
    rank.waiting_for = text_of(from, "waiting_for");
    rank.resident_bytes = static_cast<std::uint64_t>(integer_of(from, "resident_bytes"));
  }
}

/// Adds a loss. When the list is full, every second loss is removed, and from then on only half as
/// many are kept, so that the curve covers the whole run in bounded memory.
void RunPicture::add_loss(double loss) {
  if (losses_seen_++ % loss_stride_ != 0 || !std::isfinite(loss)) return;
  losses_.push_back(loss);
  if (losses_.size() < kMaxLosses) return;
  for (std::size_t i = 0; 2 * i < losses_.size(); ++i) losses_[i] = losses_[2 * i];
  losses_.resize((losses_.size() + 1) / 2);
  loss_stride_ *= 2;
}

void RunPicture::add_recent_event(const json& event) {
  const std::string kind = text_of(event, "kind");
  const std::int64_t rank = integer_of(event, "rank", -1);
  recent_events_.push_back(fmt::format(
      "{} step {} {}{}: {}", clock_text(number_of(event, "time")), integer_of(event, "step"), kind,
      rank < 0 ? "" : fmt::format(" rank {}", rank), details(kind, event)));
  if (recent_events_.size() > kMaxRecentEvents) recent_events_.pop_front();
}

int RunPicture::pp() const {
  int most = 0;
  for (const auto& [number_of_rank, rank] : ranks_) most = std::max(most, rank.stage + 1);
  return most;
}

int RunPicture::tp() const {
  int most = 0;
  for (const auto& [number_of_rank, rank] : ranks_) most = std::max(most, rank.shard + 1);
  return most;
}

int RunPicture::dp() const {
  int most = 0;
  for (const auto& [number_of_rank, rank] : ranks_) most = std::max(most, rank.replica + 1);
  return most;
}

}  // namespace troupe::launch
