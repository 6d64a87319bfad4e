#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "actors/protocol/protocol_events.h"
#include "actors/protocol/votes/replica_answers.h"

namespace troupe::actors {

/// An order of a checkpoint, from its arrival until that checkpoint is complete or the order is
/// given up.
struct PendingSave {
  std::uint64_t id = 0;
  /// The step that is saved for it; none: the next one that is committed.
  std::optional<std::int64_t> step;
};

/// The newest checkpoint of the run, and at most one that is being made: ranks write their parts,
/// then the whole is published. Once its publishing has begun, a checkpoint is not given up.
class CheckpointProgress {
 public:
  /// `saved` is the step of a checkpoint that is already in the run directory; -1: none.
  explicit CheckpointProgress(std::int64_t saved) : saved_(saved) {}

  /// Begins a checkpoint: all ranks are ordered to write. Requires that no checkpoint is being
  /// made.
  void begin(std::int64_t step, int num_replicas);
  /// Notes a replica's answer. True once all replicas have answered: the checkpoint is to be
  /// published, or removed if error() is not empty.
  bool add(const ReplicaSaved& answer);
  /// Notes that a checkpoint was published, or could not be; it counts even if its configuration
  /// has ended. False if it is not the one that is being made.
  bool finish(const Published& published);
  /// Gives up a checkpoint whose parts are being written, because the ranks stop writing.
  void give_up();

  /// The step of the newest published checkpoint; -1: none.
  std::int64_t saved() const { return saved_; }
  /// The step of the checkpoint that is being made; none if none is.
  std::optional<std::int64_t> writing() const { return writing_; }
  bool publishing() const { return publishing_; }
  /// Whether the newest checkpoint that could not be written was of this step.
  bool failed(std::int64_t step) const { return failed_ == step; }
  /// How often this step could not be written, if failed(step).
  int num_failures() const { return num_failures_; }
  /// Whether another attempt would fail in the same way, if failed(step).
  bool failed_for_good() const { return for_good_; }
  /// Whether no checkpoint of this step need be made: one of this or a newer step is there, or this
  /// step's could not be written.
  bool settled(std::int64_t step) const { return saved_ >= step || failed(step); }
  /// Why the checkpoint that is being made, or else the last one, could not be written; empty: no
  /// error.
  const std::string& error() const { return error_; }

 private:
  std::int64_t saved_;
  std::int64_t failed_ = -1;  // the newest step that could not be saved
  int num_failures_ = 0;      // of failed_
  std::optional<std::int64_t> writing_;
  bool publishing_ = false;  // only while writing_
  ReplicaAnswers parts_;
  std::string error_;
  bool for_good_ = false;  // that error_ stays
};

}  // namespace troupe::actors
