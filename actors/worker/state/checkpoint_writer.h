#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "stages/files/checkpoint/checkpoint.h"

namespace troupe::actors {

/// Writes a stage's part of a checkpoint on a thread of its own, while the next step computes, or
/// in start() if the machine has no thread left. Writes one part at a time.
class CheckpointWriter {
 public:
  CheckpointWriter() = default;
  ~CheckpointWriter() { finish(); }
  CheckpointWriter(const CheckpointWriter&) = delete;

  /// Called with why a part could not be written, empty if it was, and whether another attempt
  /// would fail in the same way.
  using Answer = std::function<void(const std::string& error, bool for_good)>;
  /// Starts to write a part into `dir`, of a stage of this model. The stage's weights and moments
  /// must not change before finish(). `answer` is called once, from the thread that writes.
  void start(std::string dir, const stages::Stage& stage, const stages::ModelConfig& model,
             const stages::CheckpointPart& part, Answer answer);
  bool is_writing() const { return thread_.joinable(); }
  /// Returns once the part is written, or has failed.
  void finish();
  /// The number of bytes written of the newest part. May be called from any thread.
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::thread thread_;
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace troupe::actors
