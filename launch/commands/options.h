#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::launch {

struct PlanOptions {
  std::string manifest;
  std::vector<std::string> overrides;  ///< table.key=value
  bool json = false;
  bool all = false;  ///< print defaults, too
  std::string svg;   ///< file to draw the schedule into; empty: none
};

struct LaunchOptions {
  std::string manifest;  ///< empty with resume
  std::string resume;    ///< run directory to go on with; empty: a new run
  std::vector<std::string> overrides;
};

struct StatusOptions {
  std::string run;
  bool json = false;
  bool diagnose = false;  ///< say what is wrong instead; exit code 1 if something is
};

struct AttachOptions {
  std::string run;
  bool json = false;
  std::string events;  ///< kinds to be told of, joined by commas; empty: all but single actions
};

struct TraceOptions {
  std::string run;
  int steps = 3;
  std::string output;  ///< file to write
};

struct DoctorOptions {};

struct TapOptions {
  std::string run;
  std::string edge;  ///< "0:1"
  bool backward = false;
  std::int64_t every = 1;
  int microbatch = -1;  ///< any
  bool not_finite = false;
  bool dump = false;
  std::int64_t samples = 0;  ///< to leave after; 0: never
};
struct ScaleOptions {
  std::string run;
  std::optional<int> pp;
  std::optional<int> dp;
  std::optional<std::string> layout;  ///< how layers are split over chunks
  std::optional<std::string> schedule;
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

/// A schedule on paper; starts nothing.
struct ScheduleOptions {
  std::string kind;           ///< a schedule's name, or csv:FILE
  std::optional<int> stages;  ///< must be given but for csv:FILE, as microbatches
  std::optional<int> chunks;  ///< none: the schedule's own
  std::optional<int> microbatches;
  std::string costs = "F=1,I=1,W=1,hop=0";
  std::optional<double> memory;
  std::string group_size;            ///< a number, or "rounds"; empty: stages
  std::vector<std::string> compare;  ///< names to put into a table
  bool blocking_sends = false;
  bool no_barrier = false;
  bool json = false;
  bool csv = false;
  bool grid = false;
  std::string svg;             ///< file to draw into; empty: none
  std::string trace;           ///< file to write a timeline into; empty: none
  std::string axis = "slots";  ///< of the drawing: slots or time
};

/// A worker process; started by launch, hidden in the help.
struct WorkerOptions {};

/// Text to print instead of running anything: a help or the version.
struct PrintText {
  std::string text;
};

using Options =
    std::variant<PrintText, PlanOptions, LaunchOptions, StatusOptions, AttachOptions, TraceOptions,
                 TapOptions, ScaleOptions, StopOptions, DoctorOptions, GenerateOptions, EvalOptions,
                 TokenizeOptions, ScheduleOptions, WorkerOptions>;

/// The whole command line. Throws Error{usage} naming the option that is wrong.
Options parse_options(int argc, const char* const* argv);

}  // namespace troupe::launch
