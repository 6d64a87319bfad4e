#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/protocol/protocol_events.h"
#include "actors/topology/configuration.h"

namespace troupe::actors {

/// A worker that an earlier director has left, on a host whose agent obeys this one.
struct LeftWorker {
  std::uint64_t incarnation = 0;
  std::string host;
};

/// The workers that an earlier director has left, until all have told what state they have or are
/// gone, and what follows from that. Before, nothing else is decided.
class Adoption {
 public:
  explicit Adoption(const std::vector<LeftWorker>& left);

  /// Whether the worker has not told yet.
  bool expects(std::uint64_t incarnation) const { return missing_.contains(incarnation); }
  /// The host of a worker that is expected.
  const std::string& host_of(std::uint64_t incarnation) const { return missing_.at(incarnation); }
  /// Takes what a worker tells that is expected.
  void take(const MemberAdopted& told);
  /// A worker is gone, whether it has told or not.
  void gone(std::uint64_t incarnation);
  /// The workers on a host, whether they have told or not.
  std::vector<std::uint64_t> on_host(const std::string& host) const;
  /// The run has started: what follows may be decided.
  void start() { started_ = true; }
  bool complete() const { return started_ && missing_.empty(); }
  std::vector<std::uint64_t> missing() const;

  /// The newest configuration that any worker knows of: later ones have higher numbers.
  std::uint32_t newest() const;
  /// The newest configuration that all ranks had reached, as far as those who are left can tell,
  /// none if there is no such. In it, the members of ranks that are gone are nobody: no worker
  /// has their incarnations.
  std::optional<Configuration> kept() const;

 private:
  std::map<std::uint64_t, std::string> missing_;  // hosts by incarnation
  std::map<std::uint64_t, MemberAdopted> told_;   // by incarnation
  bool started_ = false;
};

/// What is left to do to take over a run.
struct Takeover {
  std::optional<Adoption> adoption;  ///< until it is known which workers are left
  std::string left_by;               ///< what became of the earlier director, for people
  bool chooses_state = false;        ///< the state is not chosen yet with which they go on
  bool does_what_was_due = false;    ///< after that step: a checkpoint, an evaluation
  /// The newest step that any of them holds, which may be beyond that of the state.
  std::int64_t newest_held = 0;

  bool expects(std::uint64_t worker) const { return adoption && adoption->expects(worker); }
};

}  // namespace troupe::actors
