#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace troupe::launch {

struct PlanOptions {
  std::string manifest;
  std::vector<std::string> overrides;  ///< table.key=value
  bool json = false;
  std::string svg;  ///< file to draw the schedule into; empty: none
};

struct LaunchOptions {
  std::string manifest;  ///< empty with resume
  std::string resume;    ///< run directory to go on with; empty: a new run
  std::vector<std::string> overrides;
};

struct StatusOptions {
  std::string run;
  bool json = false;
};

struct StopOptions {
  std::string run;
};

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  std::int64_t tokens = 100;
  std::uint64_t seed = 1;
  double temperature = 0.8;
  int threads = 0;  ///< 0: one a free core
};

struct EvalOptions {
  std::string checkpoint;
  std::vector<std::string> files;
  std::int64_t steps = 32;  ///< of 8 samples
  bool json = false;
  int threads = 0;  ///< 0: one a free core
};

struct TokenizeOptions {
  std::vector<std::string> files;
  std::string tokenizer = "bytes";
  std::string output;  ///< prefix of .bin and .idx
};

/// A worker process; started by launch, hidden in the help.
struct WorkerOptions {};

/// Text to print instead of running anything: a help or the version.
struct PrintText {
  std::string text;
};

using Options = std::variant<PrintText, PlanOptions, LaunchOptions, StatusOptions, StopOptions,
                             GenerateOptions, EvalOptions, TokenizeOptions, WorkerOptions>;

/// The whole command line. Throws Error{usage} naming the option that is wrong.
Options parse_options(int argc, const char* const* argv);

}  // namespace troupe::launch
