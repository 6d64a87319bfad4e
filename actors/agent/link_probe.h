#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/messages/survey_messages.h"

namespace troupe::actors {

/// How ways to other hosts are tried.
struct ProbeManner {
  std::string secret;     ///< of the ports (ProbePort)
  double patience_s = 5;  ///< a way on which nothing moves for so long is broken
  /// Whether round trip, clock and bytes per second are measured, with some tens of milliseconds of
  /// sending; if not, only whether the other side answers.
  bool measures = false;
};

/// Tries the ways to these hosts, many at a time. Bytes per second are measured for one after the
/// other, so that the ways do not disturb each other at this end. Blocks until all have answered or
/// are broken, and soon returns once `stop` is requested. Results are in the order of `targets`.
std::vector<LinkProbe> probe_links(std::span<const ProbeTarget> targets, const ProbeManner& manner,
                                   const std::stop_token& stop);

}  // namespace troupe::actors
