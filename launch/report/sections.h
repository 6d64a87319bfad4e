#pragma once

#include <string>
#include <vector>

#include "launch/report/run_report.h"

// The parts of a run's page. Each is empty if the run has nothing for it.

namespace troupe::launch {

std::string loss_section(const RunReport& run);
std::string time_section(const RunReport& run);
std::string step_section(const RunReport& run);
std::string events_section(const RunReport& run);
std::string checkpoints_section(const RunReport& run);
std::string settings_section(const RunReport& run);
std::string machine_section(const RunReport& run);
std::string repeat_section(const RunReport& run);

/// Bars of the phases of recoveries and changes, and a table of what happened.
std::string timeline_markup(const std::vector<TimelineEntry>& timeline);

/// A measured step and its prediction, with the difference in words, and an advice that follows
/// from it.
std::string step_markup(const StepPicture& picture, const std::string& advice);

/// How a run ended, or how far it is.
std::string state_text(const RunReport& run);
/// The facts that a reader looks for first.
std::string facts_of(const RunReport& run);
/// "running", "finished" or "failed", in a frame.
std::string state_mark(const RunReport& run);

}  // namespace troupe::launch
