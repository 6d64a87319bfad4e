#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/monitors/event.h"
#include "actors/monitors/subscriber_thread.h"

namespace troupe::launch {

/// Adds up the parts of histograms that the ranks have sent, until their step is committed. Parts
/// of a step that was given up are forgotten when it is done again, which is in another
/// configuration.
class HistogramGatherer {
 public:
  struct Whole {
    std::int64_t elements = 0;  ///< of the whole tensor
    actors::ValueHistogram histogram;
    bool is_complete() const { return histogram.elements == elements; }
  };
  void add(const actors::RunEvent& event, const actors::ParametersSeen& seen);
  /// Takes the histograms of a step that is committed, by their names "weights/TENSOR" and
  /// "gradients/TENSOR". Not complete are those of which events were lost.
  std::map<std::string, Whole> take(std::int64_t step);

 private:
  struct Step {
    std::uint32_t configuration = 0;
    std::map<std::string, Whole> wholes;
  };
  std::map<std::int64_t, Step> steps_;
};

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
