#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "launch/watch/run_watch.h"
#include "launch/web/advisor.h"
#include "launch/web/parts.h"

namespace troupe::launch {

/// The answers to pages that ask for a run's state. Many readers cost as much as one, because parts
/// are drawn anew only when those drawn last are old. Callable from any thread.
class StateReplies {
 public:
  /// For how long parts are good.
  static constexpr std::chrono::milliseconds kFresh{400};

  /// The watch must outlive the replies.
  explicit StateReplies(RunWatch& watch, Advisor advisor = Advisor({}))
      : watch_(watch), advisor_(std::move(advisor)) {}

  /// {title, ended, shape: {pp, dp, tp, schedule}, parts: {id: {version, markup}}} with the parts
  /// whose version is another than the one that `query` names, as "loss=1f&mesh=2a". The shape is
  /// empty until the run has told it. The query may also have "scale=log" and
  /// "routine=yes".
  nlohmann::json reply_to(const std::string& query);

 private:
  struct Drawn {
    std::chrono::steady_clock::time_point when;
    std::string title;
    bool ended = false;
    nlohmann::json shape;
    std::map<std::string, std::pair<std::string, std::string>> parts;  // version and markup by id
  };
  const Drawn& drawn_for(const View& view);

  RunWatch& watch_;
  std::mutex mutex_;  // guards the members below
  Advisor advisor_;
  std::map<std::pair<Scale, bool>, Drawn> drawn_;
};

}  // namespace troupe::launch
