#include "launch/monitors/step_sampler.h"

#include <sched.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

// The sampler over a hub to which the test publishes what a director would.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(step_sampler_test)

namespace {

using namespace actors;
using launch::StepGatherer;
using launch::StepSampler;
using nlohmann::json;

const std::vector<RankStatus> kTwoRanks{{.rank = 0}, {.rank = 1, .stage = 1}};

RunEvent part(std::int64_t step, int rank, const std::string& name, bool complete = true,
              std::uint32_t configuration = 1) {
  return {.configuration = configuration,
          .step = step,
          .rank = rank,
          .body = ActionsTraced{.actions = {{.name = name, .begin_s = 1, .end_s = 2}},
                                .complete = complete}};
}

/// Publishes a step as ranks that record their actions, if they are asked to, send it.
void publish_step(Hub& hub, std::int64_t step, std::uint32_t configuration) {
  if (hub.wanted<ActionsTraced>())
    for (int rank = 0; rank < 2; ++rank) hub.publish(part(step, rank, "0F0", true, configuration));
  hub.publish({.configuration = configuration,
               .step = step,
               .body = StepCommitted{.report = {.step = step}}});
}

void begin_configuration(Hub& hub, std::uint32_t configuration) {
  hub.publish(
      {.configuration = configuration, .step = 0, .body = MembershipChanged{.ranks = kTwoRanks}});
}

/// Publishes steps until the sampler has enough of them. Returns the last one.
std::int64_t publish_until_it_rests(Hub& hub, std::int64_t step, std::uint32_t configuration) {
  for (; hub.wanted<ActionsTraced>(); sched_yield()) publish_step(hub, ++step, configuration);
  return step;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_is_whole_when_every_rank_has_sent_its_last_part) {
  StepGatherer gatherer;
  const auto add = [&](const RunEvent& event) {
    return gatherer.add(event, std::get<ActionsTraced>(event.body));
  };
  BOOST_TEST(!add(part(1, 0, "0F0")));  // nobody knows yet how many ranks there are
  gatherer.expect(1, 2);
  BOOST_TEST(!add(part(2, 0, "0F0", false)));
  BOOST_TEST(!add(part(2, 1, "1F0")));
  BOOST_TEST(!add(part(2, 0, "0F1", false)));
  const auto whole = add(part(2, 0, "0B0"));
  BOOST_REQUIRE(whole);
  BOOST_TEST(whole->step == 2);
  BOOST_REQUIRE(whole->ranks.at(0).size() == 3u);
  BOOST_TEST(whole->ranks.at(0)[2].name == "0B0");
  BOOST_TEST(whole->ranks.at(1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(parts_of_other_steps_and_configurations_do_not_count) {
  StepGatherer gatherer;
  const auto add = [&](const RunEvent& event) {
    return gatherer.add(event, std::get<ActionsTraced>(event.body)).has_value();
  };
  gatherer.expect(2, 2);
  BOOST_TEST(!add(part(4, 0, "0F0", true, 2)));
  BOOST_TEST(!add(part(5, 1, "1F0", true, 2)));
  BOOST_TEST(!add(part(5, 0, "0F0", true, 1)));
  BOOST_TEST(add(part(5, 0, "0F0", true, 2)));
}

BOOST_AUTO_TEST_CASE(the_directory_keeps_a_step_of_the_newest_shape) {
  const TempDir dir;
  const auto path = dir.path() / "measured_step.json";
  Hub hub;
  const auto kept = [&] { return json::parse(content_of(path)); };
  {
    const StepSampler sampler(hub, path);
    BOOST_TEST(hub.wanted<ActionsTraced>());  // from the first step on
    begin_configuration(hub, 1);
    const std::int64_t last = publish_until_it_rests(hub, 0, 1);
    BOOST_TEST(last >= StepSampler::kFirstSteps);
    while (!std::filesystem::exists(path)) sched_yield();
    const std::int64_t first_kept = kept().at("step");
    BOOST_TEST(first_kept >= StepSampler::kFirstSteps);
    publish_step(hub, last + 1, 1);  // the run goes on without recording actions
    BOOST_TEST(!hub.wanted<ActionsTraced>());

    begin_configuration(hub, 2);
    while (!hub.wanted<ActionsTraced>()) sched_yield();
    publish_step(hub, last + 2, 2);
    BOOST_TEST(kept().at("step") == first_kept);
  }
  const json step = kept();  // what it has at the end of the run
  BOOST_TEST(step.at("step") > StepSampler::kFirstSteps);
  BOOST_REQUIRE(step.at("ranks").size() == 2u);
  BOOST_TEST(step.at("ranks").at(1).at("stage") == 1);
  BOOST_TEST(step.at("ranks").at(1).at("actions").at(0).at("name") == "0F0");
  BOOST_TEST(step.at("ranks").at(1).at("actions").at(0).at("end_s") == 2);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_written_is_left_out) {
  const TempDir dir;
  const auto path = dir.path() / "gone" / "measured_step.json";
  Hub hub;
  {
    const StepSampler sampler(hub, path);
    begin_configuration(hub, 1);
    publish_until_it_rests(hub, 0, 1);
  }
  BOOST_TEST(!std::filesystem::exists(path));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
