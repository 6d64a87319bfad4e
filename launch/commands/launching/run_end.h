#pragma once

#include <string>

#include "actors/topology/reports/reports.h"
#include "launch/control/control_server.h"
#include "launch/host/console_writer.h"
#include "launch/host/signals.h"
#include "launch/run/run_directory.h"
#include "launch/run/run_log.h"
#include "launch/run/save_hook.h"

namespace troupe::launch {

/// How a launch ended.
struct End {
  actors::Outcome outcome;
  std::string checkpoint;  ///< path of the newest checkpoint; empty: none
  bool is_new = true;      ///< whether the run is not a resumed one
  bool stopped = false;    ///< whether a person or a program ordered it to stop
  bool fallen = false;  ///< whether the run's directory is another's, or gone: nothing is written
};

/// Reports the end of the run: log, outcome.json, control socket and console; releases the
/// directory. Returns the exit code.
int report_end(const End& end, RunDirectory directory, ControlServer& control, RunLog& log,
               ConsoleWriter& console);

/// Waits for commands that the last checkpoints have begun; a signal ends them.
void wait_for_hook(SaveHook& hook, SignalWatch& signals, ConsoleWriter& console);

}  // namespace troupe::launch
