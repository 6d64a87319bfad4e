#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/early_actions.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests what the ranks of a launched run do, action by action, by its trace.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(traces_test)

namespace {

using nlohmann::json;
using Names = std::set<std::string>;

constexpr int kMicrobatches = 8;
/// The costs that searched schedules are made for by default.
const std::string kEqual = "F=1,I=1,W=1,hop=0";
const Keys kModel{{"model.num_hidden_layers", "8"}};

/// An action in a trace.
struct Bar {
  std::string name;
  double begin_us = 0, end_us = 0;
};
/// The actions of one rank in one step, in the order of their begin.
using Row = std::vector<Bar>;
using Trace = std::map<std::pair<int, std::int64_t>, Row>;  // by rank and step

/// The trace of the next steps of a run that trains, as it is written.
json trace_of(const Workplace& place, const std::string& run, int steps) {
  const std::string file = (place.dir / "trace.json").string();
  const Finished done =
      troupe({"trace", place.run(run), "--steps", std::to_string(steps), "-o", file});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return json::parse(content_of(file));
}

Trace traced(const Workplace& place, const std::string& run, int steps) {
  Trace trace;
  const json content = trace_of(place, run, steps);
  for (const json& event : content.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != "action") continue;
    const double begin_us = event.at("ts");
    trace[{event.at("pid"), event.at("args").at("step")}].push_back(
        {.name = event.at("name"),
         .begin_us = begin_us,
         .end_us = begin_us + event.at("dur").get<double>()});
  }
  for (auto& [where, row] : trace) std::ranges::stable_sort(row, {}, &Bar::begin_us);
  return trace;
}

std::string printed_plan(const std::string& kind, int pp, const std::string& costs = kEqual) {
  const Finished plan =
      troupe({"schedule", "--kind", kind, "--stages", std::to_string(pp), "--microbatches",
              std::to_string(kMicrobatches), "--costs", costs, "--csv"});
  BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
  return plan.out;
}

/// The cells of each rank's row of a plan.
std::vector<std::vector<std::string>> cells_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    for (rows.emplace_back(); std::getline(cells, line, ',');) rows.back().push_back(line);
  }
  return rows;
}

/// The pairs in a rank's row of a plan, each as "F;B".
Names pairs_of(const std::vector<std::string>& cells) {
  Names pairs;
  for (const std::string& cell : cells)
    if (cell.starts_with('(')) pairs.insert(cell.substr(1, cell.size() - 2));
  return pairs;
}

bool is_forward(const std::string& name) {
  return name.find('F') != std::string::npos;
}

/// The actions of a rank that ran at the same time, each as "F;B".
Names overlaps_of(const Row& row) {
  constexpr double kRounding_us = 1e-3;
  Names overlaps;
  for (const Bar& a : row)
    for (const Bar& b : row)
      if (is_forward(a.name) && &a != &b &&
          std::max(a.begin_us, b.begin_us) + kRounding_us < std::min(a.end_us, b.end_us))
        overlaps.insert(a.name + ";" + b.name);
  return overlaps;
}

/// The actions of a rank in their order; on a device with streams first those of the forwards'
/// stream, then the others.
std::string order_of(std::vector<std::string> names) {
  if (on_async_device()) std::ranges::stable_partition(names, is_forward);
  std::string order;
  for (const std::string& name : names) order += (order.empty() ? "" : ",") + name;
  return order;
}

std::string order_of(const Row& row) {
  std::vector<std::string> names;
  for (const Bar& bar : row) names.push_back(bar.name);
  return order_of(names);
}

/// Checks that each rank of each traced step ran the actions of its line of the plan in their
/// order.
void check_order(const Trace& trace, const std::string& csv) {
  const auto rows = cells_of(csv);
  BOOST_TEST(!trace.empty());
  for (const auto& [where, row] : trace)
    BOOST_TEST(order_of(row) == order_of(rows.at(static_cast<std::size_t>(where.first))));
}

/// The text of a key of [schedule] in the manifest that a run keeps.
std::string kept_key(const std::string& run, const std::string& key) {
  std::istringstream lines(content_of(run + "/manifest.toml"));
  const std::string begin = key + " = \"";
  bool is_schedule = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) is_schedule = line == "[schedule]";
    if (is_schedule && line.starts_with(begin))
      return line.substr(begin.size(), line.find('"', begin.size()) - begin.size());
  }
  return "";
}

/// A run that goes on until it is told to stop.
class LongRun {
 public:
  LongRun(const Workplace& place, std::string name, Keys keys)
      : place_(place), name_(std::move(name)) {
    keys["run.max_steps"] = "1000000";
    keys["monitor.log_interval"] = "1000000";  // its output is not read meanwhile
    program_.emplace(std::vector<std::string>{"launch", place.manifest(name_, keys)});
    BOOST_REQUIRE(program_->read_until("step 1/"));
  }
  Trace traced(int steps) const { return traces_test::traced(place_, name_, steps); }
  bool read_until(const std::string& text) { return program_->read_until(text); }
  /// Ends the run and returns the numbers of its steps.
  std::map<int, StepNumbers> stop() {
    program_->signal(SIGTERM);
    const Finished done = program_->finish();
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    return step_numbers(place_.run(name_));
  }

 private:
  const Workplace& place_;
  const std::string name_;
  std::optional<TroupeProgram> program_;
};

/// Traces until every rank has shown a pair whose actions overlap: if the message of one action
/// comes only when the other is over, they run one after the other. No other two actions may ever
/// overlap, but for a forward and a backward on a device with streams.
void check_pairs_overlap(const LongRun& run, const std::string& kind, int pp, int tp = 1) {
  constexpr int kAttempts = 50;
  const auto rows = cells_of(printed_plan(kind, pp));
  BOOST_REQUIRE_EQUAL(rows.size(), static_cast<std::size_t>(pp));
  const auto ranks = static_cast<std::size_t>(pp * tp);
  std::set<int> seen;
  for (int i = 0; i < kAttempts && seen.size() < ranks; ++i)
    for (const auto& [where, row] : run.traced(3)) {
      const Names pairs = pairs_of(rows[static_cast<std::size_t>(where.first / tp)]);
      const Names overlaps = overlaps_of(row);
      for (const std::string& overlap : overlaps) {
        const bool is_pair = pairs.contains(overlap);
        if (is_pair) seen.insert(where.first);
        const std::string other = overlap.substr(overlap.find(';'));
        BOOST_TEST((is_pair || (on_async_device() && !is_forward(other))), overlap);
      }
    }
  BOOST_TEST(seen.size() == ranks);
}

void check_same(const std::map<int, StepNumbers>& got, const std::map<int, StepNumbers>& want) {
  BOOST_TEST(got.size() > 3u);
  for (const auto& [step, numbers] : want)
    if (got.contains(step))
      BOOST_CHECK_MESSAGE(numbers == got.at(step), "step " << step << ": loss " << got.at(step).loss
                                                           << " and " << numbers.loss);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_two_actions_of_a_pair_run_at_the_same_time) {
  const Workplace place;
  Keys keys = kModel;
  keys["run.max_steps"] = "60";
  const Finished one = troupe({"launch", place.manifest("one", keys)});
  BOOST_REQUIRE_MESSAGE(one.exit_code == 0, one.err);
  const auto want = step_numbers(place.run("one"));
  std::map<int, StepNumbers> dualpipe;
  for (const char* kind : {"combined-1f1b", "dualpipe-v", "dualpipe"})
    for (const int pp : {2, 4}) {
      BOOST_TEST_CONTEXT(kind << " of " << pp << " ranks") {
        keys["mesh.pp"] = std::to_string(pp);
        keys["schedule.kind"] = std::string("\"") + kind + '"';
        LongRun run(place, kind + std::to_string(pp), keys);
        check_pairs_overlap(run, kind, pp);
        const auto got = run.stop();
        if (kind != std::string("dualpipe")) {
          check_same(got, want);
          continue;
        }
        // Schedules with two copies of the parameters add in another order than those with one, but
        // all in the same.
        if (dualpipe.empty()) dualpipe = got;
        check_same(got, dualpipe);
        for (const auto& [step, numbers] : want)
          if (got.contains(step))
            BOOST_TEST(std::abs(got.at(step).loss / numbers.loss - 1) <= 1e-6);
      }
    }
}

/// The shards of a stage alternate the nodes of a pair each in its own way, and none waits for a
/// collective of one action that another shard starts only after one of the other action.
BOOST_AUTO_TEST_CASE(pairs_run_at_the_same_time_in_stages_of_shards) {
  const Workplace place;
  Keys keys = kModel;
  keys["mesh.tp"] = "2";
  keys["mesh.sequence_parallel"] = "true";
  keys["run.max_steps"] = "60";
  const Finished one = troupe({"launch", place.manifest("one", keys)});
  BOOST_REQUIRE_MESSAGE(one.exit_code == 0, one.err);
  const auto want = step_numbers(place.run("one"));
  keys["mesh.pp"] = "2";
  for (const char* kind : {"combined-1f1b", "dualpipe-v"}) BOOST_TEST_CONTEXT(kind) {
      keys["schedule.kind"] = std::string("\"") + kind + '"';
      LongRun run(place, kind, keys);
      check_pairs_overlap(run, kind, 2, 2);
      check_same(run.stop(), want);
    }
}

/// On a device whose ops run beside the host, the host waits for no device within a step. On the
/// CPU it computes itself.
BOOST_AUTO_TEST_CASE(the_host_queues_actions_while_earlier_ones_run) {
  const Workplace place;
  LongRun run(place, "run", kModel);
  const auto early = early_actions(trace_of(place, "run", 3));
  BOOST_TEST(early.size() == 3u);
  for (const auto& [where, actions] : early)
    BOOST_TEST((actions > 0) == on_async_device(), actions << " in step " << where.second);
  run.stop();
}

/// By its plan rank 0 runs the backward of microbatch 1 before that of 0, so that gradients would
/// be added in another order.
BOOST_AUTO_TEST_CASE(a_backward_that_comes_too_early_is_run_in_two_parts) {
  const Workplace place;
  const Finished plain = troupe({"launch", place.manifest("plain", {{"mesh.pp", "2"}})});
  BOOST_REQUIRE_MESSAGE(plain.exit_code == 0, plain.err);
  LongRun run(place, "own",
              {{"mesh.pp", "2"},
               {"schedule.kind", "\"csv\""},
               {"schedule.csv",
                "\"\"\"0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B1,0B0,0B3,0B2,0B4,0B5,0B6,0B7\n"
                "1F0,1F1,1B1,1B0,1F2,1F3,1B3,1B2,1F4,1B4,1F5,1B5,1F6,1B6,1F7,1B7\n\"\"\""}});
  check_order(run.traced(2),
              "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0I1,0B0,0W1,0I3,0B2,0W3,0B4,0B5,0B6,0B7\n"
              "1F0,1F1,1I1,1B0,1W1,1F2,1F3,1I3,1B2,1W3,1F4,1B4,1F5,1B5,1F6,1B6,1F7,1B7\n");
  check_same(run.stop(), step_numbers(place.run("plain")));
}

BOOST_AUTO_TEST_CASE(a_searched_schedule_is_run_as_it_was_made_for_its_costs) {
  const std::string costs = "F=1:1:3,I=1:1:2,W=1,hop=0.1";
  const std::string plan = printed_plan("zb-1p", 3, costs);
  BOOST_TEST(plan != printed_plan("zb-1p", 3));
  const Workplace place;
  LongRun run(
      place, "zb-1p",
      {{"mesh.pp", "3"}, {"schedule.kind", "\"zb-1p\""}, {"schedule.costs", '"' + costs + '"'}});
  check_order(run.traced(2), plan);
  run.stop();
}

/// With one layer per rank only schedules of one chunk per rank are possible, and `troupe schedule`
/// makes the same plan from the measured costs.
BOOST_AUTO_TEST_CASE(what_auto_has_chosen_is_what_the_ranks_run) {
  const Workplace place;
  LongRun run(place, "auto",
              {{"mesh.pp", "3"}, {"model.num_hidden_layers", "3"}, {"schedule.kind", "\"auto\""}});
  BOOST_REQUIRE(run.read_until("predicted gain"));
  BOOST_REQUIRE(run.read_until("changed at step"));
  // The manifest follows a moment later, and a change that is not shown to be faster is taken back,
  // so that a trace may have steps from before and after a change.
  constexpr int kAttempts = 20;
  bool same = false;
  for (int i = 0; i < kAttempts && !same; ++i) {
    const std::string costs = kept_key(place.run("auto"), "costs");
    const std::string kind = kept_key(place.run("auto"), "kind");
    const Trace trace = run.traced(2);
    if (kind == "auto") continue;
    BOOST_TEST_MESSAGE("auto has chosen " << kind << " made for '" << costs << "'");
    const auto rows = cells_of(printed_plan(kind, 3, costs.empty() ? kEqual : costs));
    same = std::ranges::all_of(trace, [&](const auto& ran) {
      return order_of(ran.second) == order_of(rows.at(static_cast<std::size_t>(ran.first.first)));
    });
  }
  BOOST_TEST(same);
  run.stop();
}

/// Rank 0 would run all its forwards first, and rank 1, which has most of the layers, takes one
/// microbatch back after the other: two slots and two send buffers bound the messages under way.
BOOST_AUTO_TEST_CASE(credits_bound_what_is_under_way_and_are_seen_to) {
  constexpr int kUnderWay = 4;
  const Workplace place;
  LongRun run(place, "credits",
              {{"mesh.pp", "2"},
               {"mesh.layout", "\"Et|t*5L\""},
               {"schedule.kind", "\"csv\""},
               {"schedule.csv",
                "\"\"\"0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B0,0B1,0B2,0B3,0B4,0B5,0B6,0B7\n"
                "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,1F4,1B4,1F5,1B5,1F6,1B6,1F7,1B7\n\"\"\""}});
  const Trace trace = run.traced(3);
  const auto begin_of = [](const Row& row, const std::string& name) {
    const auto bar = std::ranges::find(row, name, &Bar::name);
    BOOST_REQUIRE((bar != row.end()));
    return bar->begin_us;
  };
  for (const auto& [where, row] : trace) {
    if (where.first != 0) continue;
    const Row& receiver = trace.at({1, where.second});
    for (int i = 0; i + kUnderWay < kMicrobatches; ++i)
      BOOST_TEST(begin_of(row, "0F" + std::to_string(i + kUnderWay)) >
                 begin_of(receiver, "1B" + std::to_string(i)));
  }
  // The sender reports it in its signs of life.
  TroupeProgram reader({"attach", place.run("credits"), "--json", "--events", "activity"});
  bool queued = false, named = false;
  while (!queued || !named) {
    const std::string line = reader.read_line();
    BOOST_REQUIRE(!line.empty());
    const json event = json::parse(line);
    if (event.at("kind") != "activity" || event.at("rank") != 0) continue;
    const std::string wait = event.at("waiting_for");
    named = named || wait.starts_with("credit for activation");
    for (const json& link : event.at("links")) queued = queued || link.at("queued") > 0;
  }
  reader.signal(SIGINT);
  reader.finish();
  run.stop();
}

/// An activation is complete with the last node of a forward, a gradient before the weight
/// gradients that are left.
BOOST_AUTO_TEST_CASE(a_gradient_leaves_before_its_backward_is_over) {
  const Workplace place;
  LongRun run(place, "run", {{"mesh.pp", "2"}});
  TroupeProgram reader({"attach", place.run("run"), "--json", "--events", "actions"});
  std::set<int> ranks;
  while (ranks.size() < 2) {
    const std::string line = reader.read_line();
    BOOST_REQUIRE(!line.empty());
    const json event = json::parse(line);
    if (event.at("kind") != "actions") continue;
    ranks.insert(event.at("rank").get<int>());
    for (const json& action : event.at("actions")) {
      const double sent_s = action.at("sent_s"), end_s = action.at("end_s");
      const bool forward = action.at("name").get<std::string>().find('F') != std::string::npos;
      BOOST_TEST((sent_s == 0) == (action.at("to") == -1));
      if (sent_s == 0) continue;
      BOOST_TEST(sent_s > action.at("begin_s").get<double>());
      BOOST_TEST((forward ? sent_s >= end_s : sent_s < end_s));
    }
  }
  reader.signal(SIGINT);
  reader.finish();
  run.stop();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
