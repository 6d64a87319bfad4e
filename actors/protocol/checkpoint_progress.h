#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "actors/protocol/protocol_events.h"
#include "actors/protocol/replica_answers.h"

namespace troupe::actors {

/// The newest checkpoint of the run and the one under way, at most one: ranks write their parts,
/// then the whole is published. What is being published is never given up.
class CheckpointProgress {
 public:
  /// A checkpoint of this step is in the run directory; -1: none.
  explicit CheckpointProgress(std::int64_t saved) : saved_(saved) {}

  /// All ranks are ordered to write. Requires that none is under way.
  void begin(std::int64_t step, int num_replicas);
  /// True once all parts are written, or will not be: it is to be published, with error().
  bool add(const ReplicaSaved& answer);
  /// A published one counts, whatever has become of its epoch. False if it is not the one under
  /// way.
  bool finish(const Published& published);
  /// The ranks drop what they do: half a checkpoint is none.
  void give_up();

  /// The newest published step; -1: none.
  std::int64_t saved() const { return saved_; }
  /// The step of the checkpoint under way.
  std::optional<std::int64_t> writing() const { return writing_; }
  bool publishing() const { return publishing_; }
  /// A checkpoint of this step was tried and could not be written.
  bool failed(std::int64_t step) const { return failed_ == step; }
  /// A checkpoint of this step, or of a newer one, is there, or one of it was tried in vain.
  bool settled(std::int64_t step) const { return saved_ >= step || failed(step); }
  /// Why the one under way, or the last that failed, cannot be written; empty: it can.
  const std::string& error() const { return error_; }

 private:
  std::int64_t saved_;
  std::int64_t failed_ = -1;  // the newest step that could not be saved
  std::optional<std::int64_t> writing_;
  bool publishing_ = false;  // only while writing_
  ReplicaAnswers parts_;
  std::string error_;
};

}  // namespace troupe::actors
