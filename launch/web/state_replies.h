#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "launch/report/layout_advice.h"
#include "launch/watch/run_watch.h"
#include "launch/web/parts.h"

namespace troupe::launch {

/// The answers to pages that ask for a run's state. Many readers cost as much as one, because parts
/// are drawn anew only when those drawn last are old. Callable from any thread.
class StateReplies {
 public:
  /// For how long parts are good.
  static constexpr std::chrono::milliseconds kFresh{400};
  /// A reader that has not asked for so long has left.
  static constexpr std::chrono::milliseconds kLooking{5000};
  /// More readers than these are not waited for.
  static constexpr std::size_t kMostReaders = 1000;
  /// How long a request waits for the end of the run, and how many do so at a time.
  static constexpr std::chrono::milliseconds kWait{8000};
  static constexpr int kMostWaiting = 8;

  /// The watch must outlive the replies.
  explicit StateReplies(RunWatch& watch, Advisor advisor = Advisor({}))
      : watch_(watch), advisor_(std::move(advisor)) {}

  /// {title, ended, shape: {pp, dp, tp, schedule}, parts: {id: {version, markup}}} with the parts
  /// whose version is another than the one that `query` names, as "loss=1f&mesh=2a". The shape is
  /// empty until the run has told it. The query may also have "scale=log" and
  /// "routine=yes".
  nlohmann::json reply_to(const std::string& query);

  /// A reader asks. With "until=end" in its query, as that of a page that nobody sees has, this
  /// waits for the end of the run, or for kWait; not if too many wait. A newer request of the
  /// reader ends the wait.
  void begin(const std::string& query);

  /// The reader has been sent what reply_to(query) returned.
  void sent(const std::string& query, const nlohmann::json& reply);
  /// Waits until every reader who looks or waits has been sent the end of the run, or the time is
  /// over. A reader has a name, "reader=7f3a" in its query, and looks if it has asked lately.
  void wait_for_readers(std::chrono::milliseconds limit);
  /// Nobody waits for the end any more.
  void release();

 private:
  struct Drawn {
    std::chrono::steady_clock::time_point when;
    nlohmann::json reply;                                              // without parts
    std::map<std::string, std::pair<std::string, std::string>> parts;  // version and markup by id
  };
  struct Reader {
    std::chrono::steady_clock::time_point asked;  // the maximum while it waits for the end
    std::int64_t requests = 0;
  };
  const Drawn& drawn_for(const View& view);
  Reader* reader_of(const std::string& name);
  bool all_have_end();

  RunWatch& watch_;
  std::mutex mutex_;  // guards the members below
  Advisor advisor_;
  std::map<View, Drawn> drawn_;
  std::map<std::string, Reader> readers_;  // without the end, by name
  int waiting_ = 0;
  bool released_ = false;
  std::condition_variable told_;
};

}  // namespace troupe::launch
