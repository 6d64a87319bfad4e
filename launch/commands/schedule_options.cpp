#include "launch/commands/number_between.h"
#include "launch/commands/subcommand.h"

namespace troupe::launch {

void add_schedule(CLI::App& app, ScheduleOptions& o) {
  CLI::App* sub = command(
      app, "schedule", "Generate, check, simulate, compare and draw pipeline schedules",
      "  troupe schedule --kind zb-h1 --stages 4 --microbatches 8 --grid\n"
      "  troupe schedule --kind interleaved --stages 8 --chunks 3 --microbatches 24 --costs "
      "F=18.522,I=18.086,W=9.337,hop=0.601 --json\n"
      "  troupe schedule --stages 4 --microbatches 16 --compare 1f1b,zb-h1,zb-v,v-half\n"
      "  troupe schedule --kind csv:plan.csv --svg plan.svg --trace plan.json");
  sub->add_option("--kind", o.kind, "A schedule's name, or csv:FILE")->type_name("NAME");
  sub->add_option("--stages", o.stages, "Pipeline ranks")
      ->check(number_between(1, kMost))
      ->type_name("P");
  sub->add_option("--chunks", o.chunks, "Chunks a rank; default: the schedule's own")
      ->check(number_between(1, kMost))
      ->type_name("V");
  sub->add_option("--microbatches", o.microbatches, "Microbatches of a step")
      ->check(number_between(1, kMost))
      ->type_name("M");
  sub->add_option("--costs", o.costs,
                  "Durations of a whole stage in any one unit: F, I, W, B (default I+W), pair "
                  "(default F+B), F=1:2:1 by stage; cF, cI, cW, cB (waits for collectives of "
                  "shards, which pairs hide); gF, gB (gathers of divided weights beside them, in "
                  "units a chunk, ahead of the one computed with); hop (latency), link (bytes / "
                  "bandwidth), optimizer")
      ->capture_default_str();
  sub->add_option("--memory", o.memory,
                  "Most microbatches of a stage that a searched schedule holds: F takes 1, I and W "
                  "give 1/2 back")
      ->check(number_between(0.0, 1e9))
      ->type_name("N");
  sub->add_option("--group-size", o.group_size,
                  "Microbatches that interleaved takes through a chunk together, or rounds, for "
                  "the groups of PyTorch; default: P")
      ->type_name("N");
  sub->add_option("--compare", o.compare, "Print a table of these schedules, best first")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  sub->add_flag("--blocking-sends", o.blocking_sends, "A rank waits until its message has arrived");
  sub->add_flag("--no-barrier", o.no_barrier, "The optimizer waits for no other rank");
  sub->add_flag("--json", o.json, "Print one JSON object");
  sub->add_flag("--csv", o.csv, "Print the plan, a line a rank");
  sub->add_flag("--grid", o.grid, "Print a drawing");
  sub->add_option("--svg", o.svg, "Draw the schedule into this file")->type_name("FILE");
  sub->add_option("--axis", o.axis, "Unit of the drawing's axis: slots or time")
      ->check(CLI::IsMember({"slots", "time"}))
      ->capture_default_str();
  sub->add_option("--trace", o.trace, "Write a timeline for Perfetto into this file")
      ->type_name("FILE");
}

}  // namespace troupe::launch
