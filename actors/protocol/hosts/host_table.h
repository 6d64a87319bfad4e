#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/topology/run_spec.h"

namespace troupe::actors {

enum class HostState {
  joined,    ///< it has ranks
  spare,     ///< it has none, and may get some
  draining,  ///< it is to have none until it joins anew
  lost,      ///< it is not there; it may join anew
};
/// By HostState, as people are told.
inline constexpr std::array<std::string_view, 4> kHostStates{"joined", "spare", "draining", "lost"};

/// The hosts of a run, in the order of its list, then of their joining. A run on one machine has
/// none.
class HostTable {
 public:
  struct Entry {
    Host host;
    HostState state = HostState::joined;
    /// Whether it may have ranks.
    bool is_up() const { return state == HostState::joined || state == HostState::spare; }
  };

  /// `listed`: the hosts that the run names, which give the order.
  explicit HostTable(std::span<const Host> listed);

  bool empty() const { return entries_.empty(); }
  /// A host; null if none with this name has ever joined.
  const Entry* find(const std::string& name) const;
  bool is_up(const std::string& name) const;
  /// Adds a host that joins, or renews it. Its state is spare.
  void join(const Host& host);
  /// Sets the state of a host that has joined. False if it has it already.
  bool set(const std::string& name, HostState state);
  /// The hosts that may have ranks; with `draining`, also those that are to have none.
  std::vector<Entry> available(bool draining = false) const;
  /// "h0, h1, h2": all, or those in this state.
  std::string names(std::optional<HostState> state = std::nullopt) const;
  /// Why a run ends when only hosts that are to be left have room for it.
  std::string no_other_has_room() const;

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<std::string> order_;  // names of the hosts that the run lists
  std::vector<Entry> entries_;
};

}  // namespace troupe::actors
