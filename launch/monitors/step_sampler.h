#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "actors/monitors/subscriber_thread.h"
#include "launch/monitors/step_gatherer.h"
#include "stages/storage/claim.h"

namespace troupe::launch {

/// Keeps measured_step.json of the run directory: what every rank did in a step of the newest
/// shape, at most some seconds before the newest step. Ranks record their actions only while it
/// takes a step, which is rare, so that it costs a run nothing. The file is for pictures alone:
/// what cannot be written is left out without a word.
class StepSampler {
 public:
  /// The first steps of a shape are slow ones; of so many the last is taken.
  static constexpr int kFirstSteps = 8;
  /// Time between two steps that are taken later.
  static constexpr std::chrono::seconds kPeriod{10};

  /// The hub must outlive the sampler. Nothing is written once the claim to the file's directory
  /// has fallen.
  StepSampler(actors::Hub& hub, std::filesystem::path file, stages::Claim claim = {});
  StepSampler(const StepSampler&) = delete;
  /// Writes the newest step that was taken.
  ~StepSampler();

 private:
  void start();
  void follow(const actors::Subscription::Batch& batch);
  void gather(const actors::Subscription::Batch& batch);
  bool wants_a_step();
  void write();

  actors::Hub& hub_;
  const std::filesystem::path file_;
  const stages::Claim claim_;
  std::mutex mutex_;  // guards the members up to the threads
  StepGatherer gatherer_;
  std::vector<actors::RankStatus> ranks_;  // of the newest configuration
  int taken_ = 0;                          // steps taken of the newest configuration
  std::chrono::steady_clock::time_point last_;
  std::optional<nlohmann::json> unwritten_;
  std::optional<actors::SubscriberThread> tracer_;  // used by thread_ alone
  std::optional<actors::SubscriberThread> thread_;
};

}  // namespace troupe::launch
