#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "launch/commands/options.h"

// What the sources that describe the command line share.

namespace troupe::launch {

inline constexpr const char* kExitCodes =
    "Exit codes: 0 done, 64 usage, 65 bad data, 69 unavailable, 70 the run failed, 75 stopped half "
    "way, 78 bad manifest.";

/// What commands that compute with a model say of it.
inline constexpr const char* kCheckpoint =
    "A checkpoint directory, step-N, a run, whose newest checkpoint is taken, the file best in its "
    "checkpoints, or a Hugging Face directory";

/// A subcommand, with lines of examples for its help. The app owns it.
inline CLI::App* command(CLI::App& app, const char* name, const char* what, const char* examples) {
  CLI::App* sub = app.add_subcommand(name, what);
  sub->footer(fmt::format("Examples:\n{}\n{}", examples, kExitCodes));
  return sub;
}

/// Adds the options of a command that computes in this process.
void add_device(CLI::App* sub, std::string& device, int& threads);
void add_generate(CLI::App& app, GenerateOptions& o);
void add_runs(CLI::App& app, RunsOptions& o);
void add_schedule(CLI::App& app, ScheduleOptions& o);

}  // namespace troupe::launch
