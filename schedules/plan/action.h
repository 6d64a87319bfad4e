#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::schedules {

/// What an action computes: F forward; B whole backward; I input-gradient; W weight-gradient. B is
/// I, then W.
enum class Op : char { F = 'F', B = 'B', I = 'I', W = 'W' };

/// One unit of work of a rank. `chunk` counts over the whole pipeline, first layers first.
struct Action {
  int chunk = 0;
  Op op = Op::F;
  int microbatch = 0;
  /// An F that runs together with the B or I after it: one pair, written "(0F3;3B1)" in a plan.
  bool overlaps_next = false;
  bool operator==(const Action&) const = default;
};

/// Writes "2F0" for chunk 2, forward, microbatch 0. Whether the action is part of a pair is left
/// out.
std::string to_string(const Action& action);
/// Inverse of to_string; none if `text` is not exactly one action.
std::optional<Action> parse_action(std::string_view text);

}  // namespace troupe::schedules
