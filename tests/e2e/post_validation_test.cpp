#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/trained_run.h"

// Tests runs whose stages update their weights before the norm of the whole gradient is known,
// against runs whose stages wait for it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(post_validation_test)

namespace {

using nlohmann::json;

const Keys kPost{{"optimizer.validation", "\"post\""}};
/// The last stage, whose weight gradients end a step, has most of the layers.
const Keys kStages{{"mesh.pp", "3"},
                   {"schedule.kind", "\"zb-h2\""},
                   {"mesh.layout", "\"Et|t|ttttL\""},
                   {"optimizer.validation", "\"barrier\""},
                   {"optimizer.warmup_steps", "0"},
                   {"optimizer.lr", "0.01"}};

/// The median of the norms of some steps: about half of them are clipped to it.
std::string median_norm(const Numbers& numbers) {
  std::vector<double> norms;
  for (const auto& [step, of_step] : numbers) norms.push_back(of_step.grad_norm);
  std::ranges::sort(norms);
  return std::to_string(norms.at(norms.size() / 2));
}

/// How often ranks have made an update again.
int updates_made_again(const std::string& run) {
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run + "/logs")) {
    if (!entry.is_regular_file()) continue;
    const std::string text = content_of(entry.path().string());
    for (auto at = text.find("makes the update of step"); at != std::string::npos;
         at = text.find("makes the update of step", at + 1))
      ++count;
  }
  return count;
}

void check_same(const std::string& what, const Numbers& part, const Numbers& whole) {
  BOOST_TEST(!part.empty(), what);
  for (const auto& [step, numbers] : part)
    BOOST_TEST((numbers == whole.at(step)), what << ": other numbers in step " << step);
}

}  // namespace

BOOST_AUTO_TEST_CASE(updates_before_the_norm_is_known_have_the_bits_of_updates_after_it) {
  const Workplace place;
  const Keys steps = with(kStages, {{"run.max_steps", "16"}});
  const Numbers free = trained(place, "free", with(steps, {{"optimizer.clip", "0.0"}}));
  const Keys clips = with(steps, {{"optimizer.clip", median_norm(free)}});
  const Numbers barrier = trained(place, "barrier", clips);
  check_same("post", trained(place, "post", with(clips, kPost)), barrier);
  BOOST_TEST(updates_made_again(place.run("barrier")) == 0);
  const int again = updates_made_again(place.run("post"));
  BOOST_TEST(again > 0);
  BOOST_TEST(again % 3 == 0);  // on every rank
}

/// Rank 0 begins its next step while the last rank computes weight gradients of the one before,
/// without which nobody knows the norm.
BOOST_AUTO_TEST_CASE(forwards_of_the_next_step_run_before_the_norm_is_known) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", with(with(kStages, kPost),
                                                          {{"run.max_steps", "1000000"},
                                                           {"optimizer.clip", "0.0"},
                                                           {"optimizer.lr", "0.0001"},
                                                           {"monitor.log_interval", "1000000"}}))});
  BOOST_REQUIRE(run.read_until("step 1/"));
  const std::string file = (place.dir / "trace.json").string();
  const Finished traced = troupe({"trace", place.run("run"), "--steps", "12", "-o", file});
  BOOST_REQUIRE_MESSAGE(traced.exit_code == 0, traced.err);
  std::map<std::int64_t, double> begin_of_first, end_of_last;  // by step
  const json trace = json::parse(content_of(file));
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != "action") continue;
    const std::int64_t step = event.at("args").at("step");
    const double begin = event.at("ts"), end = begin + event.at("dur").get<double>();
    if (event.at("pid") == 0) {
      const auto [at, is_new] = begin_of_first.emplace(step, begin);
      at->second = std::min(at->second, begin);
    }
    if (event.at("pid") == 2) end_of_last[step] = std::max(end_of_last[step], end);
  }
  int before = 0;
  for (const auto& [step, end] : end_of_last)
    if (const auto next = begin_of_first.find(step + 1); next != begin_of_first.end())
      before += next->second < end ? 1 : 0;
  BOOST_TEST(before > 0);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

/// Of a run that loses a worker, is scaled, saves, is stopped and resumed.
BOOST_AUTO_TEST_CASE(what_a_run_goes_through_changes_no_bit_either) {
  const Workplace place;
  const Keys endless =
      with(kStages,
           {{"run.max_steps", "1000000"}, {"checkpoint.interval", "5"}, {"optimizer.clip", "1.5"}});
  const std::string dir = place.run("post");
  TroupeProgram run({"launch", place.manifest("post", with(endless, kPost))});
  for (const std::size_t rank : {0, 2}) {
    read_new_steps(run, dir, 2);
    const auto workers = workers_of(dir);
    BOOST_REQUIRE(workers.size() == 3u);
    kill(workers[rank], SIGKILL);
    BOOST_REQUIRE(run.read_until("recovered"));
  }
  for (const char* pp : {"2", "3"}) {
    const Finished scaled = troupe({"scale", dir, "--pp", pp});
    BOOST_REQUIRE_MESSAGE(scaled.exit_code == 0, scaled.err);
    read_new_steps(run, dir, 2);
  }
  BOOST_TEST(troupe({"stop", dir}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
  const int stopped = step_numbers(dir).rbegin()->first;
  const int last = stopped + 4;
  const Finished resumed =
      troupe({"launch", "--resume", dir, "--set", "run.max_steps=" + std::to_string(last)});
  BOOST_TEST(resumed.exit_code == 0, resumed.err);
  const Numbers got = step_numbers(dir);
  BOOST_TEST(static_cast<int>(got.size()) == last);
  std::ifstream events(dir + "/events.jsonl");
  for (std::string line; std::getline(events, line);) {
    const json event = json::parse(line);
    if (event.at("kind") == "recovered") BOOST_TEST(event.at("from") == "memory", line);
  }
  check_same("post", got,
             trained(place, "barrier", with(endless, {{"run.max_steps", std::to_string(last)}})));
}

BOOST_AUTO_TEST_CASE(a_step_that_is_not_finite_is_taken_back_and_the_one_before_saved) {
  const Workplace place;
  const Keys wild = with(kStages, {{"run.max_steps", "100"},
                                   {"optimizer.lr", "1e25"},
                                   {"optimizer.clip", "0.0"},
                                   {"checkpoint.interval", "0"}});
  const auto ended = [&](const std::string& name, const Keys& keys) {
    const Finished done = troupe({"launch", place.manifest(name, keys)});
    BOOST_TEST(done.exit_code == 70, done.err);
    const Numbers numbers = step_numbers(place.run(name));
    const int last = numbers.empty() ? 0 : numbers.rbegin()->first;
    BOOST_TEST(done.err.find("step " + std::to_string(last + 1) + " was not committed") !=
                   std::string::npos,
               done.err);
    const std::string saved = place.checkpoint(name, last);
    BOOST_TEST(done.err.find("is in " + saved) != std::string::npos, done.err);
    BOOST_TEST(content_of(saved + "/model.safetensors.index.json").size() > 0u);
    return numbers;
  };
  check_same("post", ended("post", with(wild, kPost)), ended("barrier", wild));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
