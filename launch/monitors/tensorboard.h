#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/monitors/subscriber_thread.h"
#include "launch/monitors/histogram_gatherer.h"

namespace troupe::launch {

/// Writes an event file for TensorBoard: train/loss, train/grad_norm, train/lr, train/tokens_per_s,
/// train/step_s and eval/loss, the busy share of each stage, changes of the cluster as text, and
/// the histograms that the run makes (monitor.histograms). Where steps are computed again, readers
/// show the newer ones alone (a SessionLog of kind START). It is a monitor like any other: if it
/// cannot write it reports that once and ends, and the run goes on.
class TensorBoard {
 public:
  /// Creates a new file in `folder`, which is created if it does not exist. `print_error` is called
  /// from the monitor's own thread.
  TensorBoard(actors::Hub& hub, const std::filesystem::path& folder,
              std::function<void(const std::string&)> print_error);

 private:
  void open();
  void consume(const actors::Subscription::Batch& batch);
  void begin_session_at(std::int64_t step, double time);
  void write(const std::string& message);
  void write_histograms(const actors::RunEvent& committed);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::filesystem::path folder_;
  const std::function<void(const std::string&)> print_error_;
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::optional<std::int64_t> last_step_;
  bool broken_ = false;
  HistogramGatherer histograms_;
  // Declared last, so that it ends before the members that it uses.
  actors::SubscriberThread thread_;
};

}  // namespace troupe::launch
