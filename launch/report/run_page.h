#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/report/run_report.h"

namespace troupe::launch {

/// The report of a run as an HTML file. `now` is when it is made, in Unix seconds.
std::string run_page(const RunReport& run, double now);
/// The report of several runs: their curves in one picture, and what differs.
std::string comparison_page(const std::vector<RunReport>& runs, double now);
/// Names that tell runs apart: their own, or their directories if some have the same.
std::vector<std::string> names_of(std::span<const RunReport> runs);

// The parts of a run's page. Each is empty if the run has nothing for it.

std::string loss_section(const RunReport& run);
std::string time_section(const RunReport& run);
std::string prediction_section(const RunReport& run);
std::string step_section(const RunReport& run);
std::string events_section(const RunReport& run);
std::string checkpoints_section(const RunReport& run);
std::string settings_section(const RunReport& run);
std::string machine_section(const RunReport& run);
std::string hosts_section(const RunReport& run);
std::string repeat_section(const RunReport& run);
/// How a run ended, or how far it is.
std::string state_text(const RunReport& run);
/// The facts that a reader looks for first.
std::string facts_of(const RunReport& run);
/// "running", "finished" or "failed", in a frame.
std::string state_mark(const RunReport& run);

// What the page of a live run shows as well.

/// A table of the hosts of a run on several; empty for a run on one.
std::string hosts_markup(const std::vector<actors::HostStatus>& hosts);
/// A bar of the parts of the time.
std::string time_bar(const TimeAccount& time);
/// Bars of the phases of recoveries and changes, and a table of what happened.
std::string timeline_markup(const std::vector<TimelineEntry>& timeline);
/// What ranks did, a row each, over an axis of milliseconds from 0 to `length_s`. Actions that run
/// at the same time lie one above the other.
std::string draw_gantt(const std::string& label, const std::vector<RankRow>& rows, double length_s);
/// A list of the kinds of actions among the rows with their looks.
std::string gantt_legend(const std::vector<RankRow>& rows);
/// A measured step and its prediction, with the difference in words, and an advice that follows
/// from it.
std::string step_markup(const StepPicture& picture, const std::string& advice);

}  // namespace troupe::launch
