#pragma once

#include <cstdint>
#include <string>

#include "actors/topology/reports.h"
#include "actors/topology/run_spec.h"
#include "launch/manifest/placement.h"

namespace troupe::launch {

/// What a run is, for people: model, batch, mesh, schedule and a row a rank. Lines with their ends.
std::string summary(const actors::RunSpec& spec, const Placement& placement);

/// Tokens, samples, and how often the run reads them. A line with its end.
std::string corpus_line(const actors::RunSpec& spec, std::int64_t tokens);

/// The console line of a step: step, loss, norm, lr, tokens/s, time left.
std::string step_line(const actors::StepReport& report, std::int64_t max_steps, double left_s);

/// "0:05:13", "2d 3:04:05".
std::string duration_text(double seconds);

/// Writes to standard output at once. Throws Error{data} with the system's reason if it cannot: who
/// reads the output would take what is missing for all there is.
void print(const std::string& text);
/// The same beside work that goes on without a reader: failures are kept for console_failed().
void show(const std::string& text);
/// Something that was printed or shown has not reached standard output.
bool console_failed();
/// Writes to standard error, as a line that begins with the program's name.
void complain(const std::string& text);

}  // namespace troupe::launch
