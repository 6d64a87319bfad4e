#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/reports/member_status.h"
#include "launch/run/json_fields.h"

namespace troupe::launch {

/// A part of a recovery or of an ordered change, and how long it took.
struct Phase {
  std::string name;
  double seconds = 0;
};

/// Something that happened to a run, as people are told of it.
struct TimelineEntry {
  std::string kind;  ///< kind of the event; "launch": a launcher went on with the run
  double time = 0;   ///< Unix seconds
  std::int64_t step = 0;
  int rank = -1;  ///< rank that it is about; -1: none
  std::string text;
  std::vector<Phase> phases;  ///< of recoveries and changes, in order
  double stall_s = 0;         ///< all phases together

  std::string title() const;  ///< the kind in words
  bool has_phases() const { return !phases.empty() && stall_s > 0; }
  std::string sentence() const;  ///< what happened
};

/// The value if it is told.
template <typename T>
std::optional<T> told_if(bool is_told, const T& value) {
  return is_told ? std::optional(value) : std::nullopt;
}

TROUPE_JSON_FIELDS(Phase, x.name, x.seconds)
TROUPE_JSON_FIELDS(TimelineEntry, x.kind, x.time, x.step, x.text,
                   keyed("rank", told_if(x.rank >= 0, x.rank)),
                   keyed("stall_s", told_if(!x.phases.empty(), x.stall_s)),
                   keyed("phases", told_if(!x.phases.empty(), x.phases)))

/// A span of steps in which the cluster had one shape.
struct ShapeSpan {
  std::int64_t after_step = 0;  ///< the shape's first step is the one after this
  int pp = 1, dp = 1, tp = 1, ep = 1;
  std::vector<int> dp_of_stage, tp_of_stage;  ///< if stages differ in width; else empty
  std::string schedule;
  std::vector<std::string> hosts;  ///< of its ranks, each once

  std::string text() const;  ///< "pp 4 x dp 2, 1f1b"; "pp 2 (dp 2 | dp 1), 1f1b"
};

struct SavedCheckpoint {
  std::int64_t step = 0;
  double time = 0;
  double duration_s = 0;
};

/// The time from the first to the last event of one launcher.
struct LaunchSpan {
  double begin = 0;  ///< Unix seconds
  double end = 0;
  bool ended = false;  ///< whether it told of its end
};

/// What events.jsonl tells of a run.
struct History {
  std::vector<LaunchSpan> launches;
  std::vector<ShapeSpan> shapes;
  std::vector<TimelineEntry> timeline;  ///< in order of time
  std::vector<SavedCheckpoint> checkpoints;
  /// The hosts of a run on several, with their newest states and how often they were lost.
  std::vector<actors::HostStatus> hosts;
  std::vector<actors::RankStatus> ranks;   ///< of the newest configuration
  std::optional<double> recovering_since;  ///< Unix seconds; none: no recovery is under way
  double broken_off_s = 0;                 ///< recoveries that the end of a launch broke off
};

/// Sorts events, oldest first, by what they tell. Events of readers that came and went, and of the
/// beginning of phases, are left out.
class Historian {
 public:
  void add(const nlohmann::json& event);
  const History& history() const { return history_; }
  /// Takes hosts over of which no event has told.
  void know(const std::vector<actors::HostStatus>& hosts) {
    if (history_.hosts.empty()) history_.hosts = hosts;
  }

 private:
  bool is_of_next_launch(const nlohmann::json& event) const;
  void add_host(const nlohmann::json& event);
  void add_membership(const nlohmann::json& event, double time);
  void begin_launch(double time);
  void break_off_recovery();

  History history_;
  std::int64_t configuration_ = 0;
  std::int64_t reached_ = 0;  // by the newest launch, when it went back to an older state
  bool is_next_ = false;      // hosts of a next launch have joined, which has not begun yet
};
History history_of(const std::vector<nlohmann::json>& events);

/// What a person is told of an event of any kind but steps.
TimelineEntry entry_of(const nlohmann::json& event);

}  // namespace troupe::launch
