#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/planner/measuring/measure.h"
#include "launch/run/result_file.h"

namespace troupe::launch {

int run(const MeasureOptions& options) {
  ResultFile file(options.output);
  const Measurement measured = measure_machine(this_machine(), options.threads);
  for (const std::string& warning : measured.warnings) print_error("warning: " + warning);
  for (const std::string& line : measured.lines) print(line + "\n");
  file.write(to_toml(measured.machine));
  return 0;
}

}  // namespace troupe::launch
