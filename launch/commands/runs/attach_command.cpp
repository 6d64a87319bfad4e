#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <ranges>

#include "launch/commands/options.h"
#include "launch/commands/runs/live_run_commands.h"
#include "launch/control/control_protocol.h"
#include "launch/control/event_json.h"
#include "launch/host/console.h"
#include "launch/host/device_json.h"
#include "launch/host/signals.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/monitors/attachment.h"
#include "launch/run/json_fields.h"
#include "launch/run/run_directory.h"
#include "launch/screen/event_lines.h"
#include "launch/screen/show_screen.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// The kinds of events that the user has named, or else all but these.
std::string kinds_of(const AttachOptions& options,
                     std::initializer_list<std::string_view> left_out) {
  if (!options.events.empty()) return options.events;
  const auto stays = [&](auto name) { return std::ranges::count(left_out, name) == 0; };
  return fmt::format("{}", fmt::join(actors::kEventNames | std::views::filter(stays), ","));
}

/// The exit code when the run has ended: the launcher's, which is 0 for an orderly end, as it is
/// when the user leaves.
int exit_code_of(const Ending& ending, const std::string& run) {
  if (ending.outcome.exit_code != 0) print_error(describe(ending, run));
  return ending.outcome.exit_code;
}

/// The end as an event. A reader that is behind gets no event any more when the run ends.
json event_of(const Ending& ending, std::uint32_t configuration) {
  return to_json(actors::RunEvent{.configuration = configuration,
                                  .step = ending.outcome.step,
                                  .body = actors::RunEnded{.outcome = ending.outcome},
                                  .time = time_of(ending)});
}

/// Prints what `line_of` makes of each event until the run ends or the user leaves. The end comes
/// last and once, whatever else has been missed.
int print_lines(const AttachOptions& options, Attachment& run,
                const std::function<std::string(const json&)>& line_of) {
  SignalFd signals{SIGINT, SIGTERM, SIGHUP};
  bool tells_end = (parse_kinds(options.events) & actors::mask_of<actors::RunEnded>()).any();
  auto configuration = static_cast<std::uint32_t>(integer_of(run.status(), "configuration"));
  while (const auto news = next_news(run, signals)) {
    if (news->dropped > 0) print(line_of({{"kind", "dropped"}, {"dropped", news->dropped}}));
    for (const auto& event : news->events) {
      print(line_of(event));
      configuration = static_cast<std::uint32_t>(integer_of(event, "configuration"));
      if (text_of(event, "kind") == "ended") tells_end = false;
    }
    if (!news->ended) continue;
    if (tells_end) print(line_of(event_of(*news->ended, configuration)));
    return exit_code_of(*news->ended, options.run);
  }
  return 0;
}

int print_json(const AttachOptions& options) {
  const std::string kinds = kinds_of(options, {"actions", "histograms"});
  const auto run = attach(options.run, "attach to", {.kinds = kinds, .who = "lines"});
  return print_lines(options, *run, [](const json& event) { return to_text(event) + "\n"; });
}

/// Lines for people, where there is no screen.
int print_texts(const AttachOptions& options) {
  const std::string kinds =
      kinds_of(options, {"actions", "activity", "director", "tensor", "histograms"});
  const auto run = attach(options.run, "attach to", {.kinds = kinds, .who = "lines"});
  EventLines lines(received_status(run->status()).max_steps);
  return print_lines(options, *run, [&](const json& told) -> std::string {
    if (text_of(told, "kind") == "dropped")
      return fmt::format("{} events were missed\n", integer_of(told, "dropped"));
    const auto event = received_event(told);
    return event ? lines.line_of(*event) : "";
  });
}

/// What the model FLOP utilization is computed from, as the run's launcher knows it. Unknown if its
/// files are not there or of another version.
PeakRate peak_of(const std::filesystem::path& run) {
  try {
    const Manifest manifest = Manifest::read(run / kManifestFile, {});
    Machine machine;
    if (const json told = json::parse(std::ifstream(run / kMachineFile)); told.contains("gpus"))
      machine.gpus = told.at("gpus").get<tensor::DeviceReport>();
    return peak_rate(to_run_spec(manifest), manifest->monitor.peak_tflops, machine);
  } catch (const std::exception&) {
    return {};
  }
}

/// What the run's files tell of it so far. A run whose files cannot be read is shown from now on.
WatchedRun watched_run(const std::filesystem::path& run, const std::string& name,
                       std::int64_t max_steps) {
  return {.name = name,
          .max_steps = max_steps,
          .peak = peak_of(run),
          .past_steps = read_metrics(run / kMetricsFile),
          .past_events = read_json_lines(run / kEventsFile),
          .past_step = read_json(run / kMeasuredStepFile).value_or(nullptr)};
}

/// Shows what the files of a run that has ended tell of it, until the user leaves.
int show_ended(const AttachOptions& options, const Ending& ending, SignalFd& signals,
               const TerminalKind& kind) {
  const Manifest manifest = Manifest::read(std::filesystem::path(options.run) / kManifestFile, {});
  const WatchedRun files = watched_run(options.run, manifest->name, manifest->max_steps);
  RunWatch watch(files);
  const auto members =
      std::find_if(files.past_events.rbegin(), files.past_events.rend(),
                   [](const json& event) { return text_of(event, "kind") == "membership"; });
  if (members != files.past_events.rend())
    if (const auto event = received_event(*members)) watch.apply(*event);
  watch.end(ending.outcome);
  show_screen({.news = nullptr, .actions = nullptr, .watch = watch}, signals, kind);
  print(describe(ending, options.run) + "\n");
  return 0;
}

/// Actions come by a connection of their own, so that a flood of them pushes nothing else out of
/// the run's queues.
std::unique_ptr<Attachment> attach_to_actions(const AttachOptions& options) {
  try {
    return attach(options.run, "attach to", {.kinds = "actions", .who = "last step"});
  } catch (const Error&) {
    return nullptr;  // too many readers, or the run ends just now
  }
}

int show(const AttachOptions& options, const TerminalKind& kind) {
  const std::string kinds = kinds_of(options, {"actions", "tensor", "histograms"});
  auto opened = Attachment::open(
      options.run, {.kinds = kinds, .who = fmt::format("screen of pid {}", getpid())});
  SignalFd signals{SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT};
  if (const auto* ending = std::get_if<Ending>(&opened))
    return show_ended(options, *ending, signals, kind);
  const auto news = std::move(std::get<std::unique_ptr<Attachment>>(opened));
  const auto actions = attach_to_actions(options);
  RunWatch watch(watched_run(options.run, text_of(news->status(), "run"),
                             received_status(news->status()).max_steps));
  const double left_s = number_of(news->status(), "time_left_s");
  watch.begin(received_status(news->status()), std::isfinite(left_s) ? left_s : 0);
  const auto ending =
      show_screen({.news = news.get(), .actions = actions.get(), .watch = watch}, signals, kind);
  if (!ending) return 0;
  if (ending->outcome.exit_code == 0) print(describe(*ending, options.run) + "\n");
  return exit_code_of(*ending, options.run);
}

}  // namespace

int run(const AttachOptions& options) {
  parse_kinds(options.events);  // a wrong name is reported before the run is asked
  if (options.json) return print_json(options);
  const TerminalKind kind = terminal_kind(std::getenv);
  if (isatty(STDOUT_FILENO) == 0 || !kind.moves) return print_texts(options);
  return show(options, kind);
}

}  // namespace troupe::launch
