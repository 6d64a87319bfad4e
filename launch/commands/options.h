#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/monitors/tap_request.h"
#include "actors/topology/scale.h"
#include "launch/commands/plan_options.h"
#include "launch/hosts/hosts_plan.h"
#include "stages/corpus/text/text_rules.h"
#include "stages/inference/sampling.h"

namespace troupe::launch {

struct LaunchOptions {
  std::string manifest;            ///< path of the manifest; empty with `resume` and `from`
  std::string resume;              ///< directory of the run to resume; empty: start a new run
  std::string from;                ///< directory of the model to train without a manifest
  std::vector<std::string> files;  ///< what to train it on
  std::vector<std::string> overrides;
  HostOptions hosts;
  int devices = 0;      ///< on which the fastest layout is looked for; 0: the manifest's layout
  std::string machine;  ///< of which they are, as for plan; empty: this one's GPUs
};

struct StatusOptions {
  std::string run;
  bool json = false;
  bool diagnose = false;  ///< print what is wrong instead, with exit code 1 if something is
};

struct RunsOptions {
  std::string directory = "runs";  ///< where to look for runs
  bool json = false;
};

struct AttachOptions {
  std::string run;
  bool json = false;
  std::string events;  ///< kinds of events, joined by commas; empty: all but single actions
};

struct ReportOptions {
  std::vector<std::string> runs;  ///< run directories; several are compared
  std::string output;             ///< file to write; empty: report.html of the only run
  bool json = false;              ///< print the data instead
  std::string machine;            ///< that steps are predicted for; empty: by the GPUs' name
};

struct TraceOptions {
  std::string run;
  int steps = 3;
  std::string output;  ///< file to write
};

struct CollectivesOptions {
  std::string run;
};

struct DoctorOptions {
  std::string hosts;  ///< manifest of the run whose hosts are examined; empty: this machine is
  std::vector<std::string> overrides;
  HostOptions with;  ///< which hosts these are
  bool json = false;
};

struct TapOptions {
  std::string run;
  std::string edge;                 ///< sender and receiver, as "0:1"
  actors::TapRequest request = {};  ///< of this edge
};

struct ScaleOptions {
  std::string run;
  actors::ScaleRequest request = {};
  bool json = false;
};

struct CheckpointOptions {
  std::string run;
  bool json = false;
};

struct HostsOptions {
  std::string run;
  bool json = false;
};

struct StopOptions {
  std::string run;
  bool json = false;
};

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  std::string prompt_file;         ///< one prompt a line, in place of `prompt`
  bool chat = false;               ///< a prompt is what a user says
  std::optional<std::string> bos;  ///< what a prompt begins with; none: as in training
  std::int64_t tokens = 100;
  stages::Sampling sampling{.temperature = 0.8};
  std::vector<std::string> stops;
  bool json = false;
  int tp = 1;  ///< shards of each stage
  int pp = 1;  ///< stages
  std::string device = "cpu";
  int threads = 0;  ///< 0: one thread for each free core
};

struct EvalOptions {
  std::string checkpoint;
  std::vector<std::string> files;
  std::int64_t steps = 32;               ///< number of steps, of 8 samples each
  std::int64_t seq_len = 0;              ///< tokens of a sample; 0: as the checkpoint says
  std::optional<std::string> documents;  ///< how text becomes samples; none: as in training
  std::optional<std::string> loss_on;    ///< which tokens count; none: as in training
  // What documents begin and end with; none: as in training.
  std::optional<std::string> bos, end_of_document;
  bool json = false;
  int tp = 1;  ///< shards of each stage
  int pp = 1;  ///< stages
  std::string device = "cpu";
  int threads = 0;  ///< 0: one thread for each free core
};

struct LogitsOptions {
  std::string checkpoint;
  std::string ids;     ///< file with a JSON list of token ids in each line
  std::string output;  ///< safetensors file to write
  std::string device = "cpu";
  int threads = 0;  ///< 0: one thread for each free core
};

struct ImportOptions {
  std::string model;   ///< a Hugging Face directory
  std::string output;  ///< directory of the checkpoint
  bool json = false;
};

struct ExportOptions {
  std::string checkpoint;
  std::string output;  ///< the Hugging Face directory
  std::string dtype;   ///< of the weights; empty: as they are stored
  bool json = false;
};

struct TokenizeOptions {
  std::vector<std::string> files;
  std::string tokenizer = "bytes";
  std::string output;  ///< path of the dataset without .bin and .idx
  bool add_special_tokens = false;
  std::string bos{stages::kNoMark}, end_of_document{stages::kNoMark};  ///< as in TextRules
  std::optional<std::string> append;                                   ///< a token, by its name
  std::vector<std::string> fields;  ///< "prompt=question", as in TextRules
  std::string on_bad_line{stages::kBadLinesNames[0]};
  std::string date;  ///< of chat templates; empty: today
  bool json = false;
};

/// Options of `troupe schedule`, which generates and simulates schedules without a run.
struct ScheduleOptions {
  std::string kind;           ///< a schedule's name, or csv:FILE
  std::optional<int> stages;  ///< required, as is microbatches, except for csv:FILE
  std::optional<int> chunks;  ///< chunks of a stage; none: the schedule's default
  std::optional<int> microbatches;
  std::string costs = "F=1,I=1,W=1,hop=0";
  std::optional<double> memory;
  std::string group_size;            ///< a number, or "rounds"; empty: the number of stages
  std::vector<std::string> compare;  ///< schedules to compare in a table
  bool blocking_sends = false;
  bool no_barrier = false;
  bool json = false;
  bool csv = false;
  bool grid = false;
  std::string svg;             ///< file for a drawing; empty: none
  std::string trace;           ///< file for a timeline; empty: none
  std::string axis = "slots";  ///< unit of the drawing's axis: slots or time
};

/// The options of the process that `own_gpus()` starts and the help does not show.
struct DevicesOptions {};

/// `troupe join`, the agent of a host.
struct JoinOptions {
  std::string run;         ///< a live run's directory; "-": the invitation comes on standard input
  std::string rendezvous;  ///< "host:port" of the launcher, in place of `run`
  std::string token_file;
  int slots = 0;        ///< ranks that this host may have; 0: as many as the others
  double wait_s = 300;  ///< how long a launcher that does not answer yet is tried
};

/// The options of a worker process, which launch starts and the help does not show.
struct WorkerOptions {};

/// The options of a process that computes a part of a model for `generate` or `eval`, which start
/// it; the help does not show it.
struct RankOptions {};

/// A text to print instead of running a command: a help or the version.
struct PrintText {
  std::string text;
};

using Options = std::variant<PrintText, PlanOptions, MeasureOptions, LaunchOptions, StatusOptions,
                             RunsOptions, AttachOptions, ReportOptions, TraceOptions, TapOptions,
                             ScaleOptions, CheckpointOptions, StopOptions, DoctorOptions,
                             GenerateOptions, EvalOptions, LogitsOptions, ImportOptions,
                             ExportOptions, TokenizeOptions, ScheduleOptions, CollectivesOptions,
                             DevicesOptions, JoinOptions, HostsOptions, RankOptions, WorkerOptions>;

/// Parses the whole command line. Throws Error{usage} naming the option that is wrong.
Options parse_options(int argc, const char* const* argv);

// The subcommands. Each returns the exit code, or throws an Error with one message for the user.

int run(const PrintText& text);
int run(const PlanOptions& options);
int run(const MeasureOptions& options);
int run(const LaunchOptions& options);
int run(const StatusOptions& options);
int run(const RunsOptions& options);
int run(const AttachOptions& options);
int run(const ReportOptions& options);
int run(const TraceOptions& options);
int run(const TapOptions& options);
int run(const ScaleOptions& options);
int run(const CheckpointOptions& options);
int run(const StopOptions& options);
int run(const CollectivesOptions& options);
int run(const DoctorOptions& options);
int run(const GenerateOptions& options);
int run(const EvalOptions& options);
int run(const LogitsOptions& options);
int run(const ImportOptions& options);
int run(const ExportOptions& options);
int run(const TokenizeOptions& options);
int run(const ScheduleOptions& options);
int run(const DevicesOptions& options);
int run(const JoinOptions& options);
int run(const HostsOptions& options);
int run(const RankOptions& options);
int run(const WorkerOptions& options);

}  // namespace troupe::launch
