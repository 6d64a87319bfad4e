#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// What the ranks of a launched run do, action by action, as its trace tells.

namespace troupe::test {
namespace {

using nlohmann::json;
using Names = std::set<std::string>;

constexpr int kMicrobatches = 8;
const Keys kModel{{"model.num_hidden_layers", "8"}};

/// An action as a trace has it.
struct Bar {
  std::string name;
  double begin_us = 0, end_us = 0;
};
/// Of one rank in one step, in the order of their begin.
using Row = std::vector<Bar>;
using Trace = std::map<std::pair<int, std::int64_t>, Row>;  // by rank and step

/// The next steps of a run that trains.
Trace traced(const Workplace& place, const std::string& run, int steps) {
  const std::string file = (place.dir / "trace.json").string();
  const Finished done =
      troupe({"trace", place.run(run), "--steps", std::to_string(steps), "-o", file});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  Trace trace;
  const json content = json::parse(content_of(file));
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

std::string printed_plan(const std::string& kind, int pp) {
  const Finished plan = troupe({"schedule", "--kind", kind, "--stages", std::to_string(pp),
                                "--microbatches", std::to_string(kMicrobatches), "--csv"});
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

/// The pairs of a rank, each "F;B".
Names pairs_of(const std::vector<std::string>& cells) {
  Names pairs;
  for (const std::string& cell : cells)
    if (cell.starts_with('(')) pairs.insert(cell.substr(1, cell.size() - 2));
  return pairs;
}

/// The actions of a rank that ran at the same time, each "F;B".
Names overlaps_of(const Row& row) {
  constexpr double kRounding_us = 1e-3;
  const auto is_forward = [](const Bar& bar) { return bar.name.find('F') != std::string::npos; };
  Names overlaps;
  for (const Bar& a : row)
    for (const Bar& b : row)
      if (is_forward(a) && &a != &b &&
          std::max(a.begin_us, b.begin_us) + kRounding_us < std::min(a.end_us, b.end_us))
        overlaps.insert(a.name + ";" + b.name);
  return overlaps;
}

/// A run that goes on until it is told to stop.
class LongRun {
 public:
  LongRun(const Workplace& place, std::string name, Keys keys)
      : place_(place), name_(std::move(name)) {
    keys["run.max_steps"] = "1000000";
    keys["monitor.log_interval"] = "1000000";  // nobody reads its output meanwhile
    program_.emplace(std::vector<std::string>{"launch", place.manifest(name_, keys)});
    BOOST_REQUIRE(program_->read_until("step 1/"));
  }
  Trace traced(int steps) const { return test::traced(place_, name_, steps); }
  /// Ends it; the numbers of its steps.
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

/// Traces until every rank has shown a pair at work: where the one's message comes when the other
/// is over, a pair runs one after the other. No other two actions ever overlap.
void check_pairs_overlap(const LongRun& run, const std::string& kind, int pp) {
  constexpr int kAttempts = 50;
  const auto rows = cells_of(printed_plan(kind, pp));
  BOOST_REQUIRE_EQUAL(rows.size(), static_cast<std::size_t>(pp));
  std::set<int> seen;
  for (int i = 0; i < kAttempts && static_cast<int>(seen.size()) < pp; ++i)
    for (const auto& [where, row] : run.traced(3)) {
      const Names pairs = pairs_of(rows[static_cast<std::size_t>(where.first)]);
      const Names overlaps = overlaps_of(row);
      BOOST_TEST(std::ranges::includes(pairs, overlaps));
      if (!overlaps.empty()) seen.insert(where.first);
    }
  BOOST_TEST(seen.size() == static_cast<std::size_t>(pp));
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
        // Two copies of the parameters add in another order, among themselves in the same one.
        if (dualpipe.empty()) dualpipe = got;
        check_same(got, dualpipe);
        for (const auto& [step, numbers] : want)
          if (got.contains(step))
            BOOST_TEST(std::abs(got.at(step).loss / numbers.loss - 1) <= 1e-6);
      }
    }
}

}  // namespace troupe::test
