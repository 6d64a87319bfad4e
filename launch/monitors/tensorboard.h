#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/monitors/subscriber_thread.h"

namespace troupe::launch {

/// Writes an event file for TensorBoard: train/loss, train/grad_norm, train/lr, train/tokens_per_s,
/// train/step_s and eval/loss, the busy share of each stage, and what happens to the cluster as
/// text. A monitor like any other: when it cannot write it says so once and ends, and the run goes
/// on.
class TensorBoard {
 public:
  /// Makes a new file in `folder`, which is made if need be. `print_error` is called from a thread
  /// of its own.
  TensorBoard(actors::Hub& hub, const std::filesystem::path& folder,
              std::function<void(const std::string&)> print_error);

 private:
  void open();
  void consume(const actors::Subscription::Batch& batch);
  void write(const std::string& message);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::filesystem::path folder_;
  const std::function<void(const std::string&)> complain_;
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool broken_ = false;
  actors::SubscriberThread thread_;  // last: ends before what it uses
};

}  // namespace troupe::launch
