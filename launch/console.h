#pragma once

#include <cstdint>
#include <string>

#include "actors/reports.h"
#include "actors/run_spec.h"
#include "launch/placement.h"

namespace troupe::launch {

/// What a run is, for people: model, batch, mesh, schedule and a row a rank. Lines with their ends.
std::string summary(const actors::RunSpec& spec, const Placement& placement);

/// The console line of a step: step, loss, norm, lr, tokens/s, time left (from the mean time of a
/// step).
std::string step_line(const actors::StepReport& report, std::int64_t max_steps, double mean_step_s);

/// "0:05:13", "2d 3:04:05".
std::string duration_text(double seconds);

/// Writes to standard output at once. A closed terminal or a full disk is no reason to stop:
/// failures are ignored.
void print(const std::string& text);
/// The same where printing is all there is to do. Throws Error{data} if it cannot be done.
void print_or_stop(const std::string& text);
/// The same for standard error, as a line that begins with the program's name.
void complain(const std::string& text);

}  // namespace troupe::launch
