#include "schedules/analysis/costs.h"

#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(costs_test)

using namespace troupe::schedules;

namespace {

WholeCosts parsed(std::string_view text, int chunks = 1) {
  auto out = parse_costs(text, chunks);
  const auto* wrong = std::get_if<std::string>(&out);
  BOOST_REQUIRE_MESSAGE(wrong == nullptr, (wrong ? *wrong : ""));
  return std::get<WholeCosts>(out);
}
void check_refused(std::string_view text, std::string_view part) {
  const auto out = parse_costs(text, 1);
  BOOST_REQUIRE_MESSAGE(std::holds_alternative<std::string>(out), "\"" << text << "\" was read");
  const std::string& wrong = std::get<std::string>(out);
  BOOST_TEST(wrong.find(part) != std::string::npos, wrong);
}

}  // namespace

BOOST_AUTO_TEST_CASE(decimals_become_whole_numbers) {
  const WholeCosts row = parsed("F=18.522,I=18.086,W=9.337,hop=0.601", 3);
  BOOST_TEST(row.units == 3000);
  BOOST_TEST(row.costs.stages[0].forward == 55566);
  BOOST_TEST(row.costs.stages[0].input_gradient == 54258);
  BOOST_TEST(row.costs.hop == 1803);
  BOOST_TEST(!row.costs.stages[0].backward.has_value());
  BOOST_TEST(!row.costs.stages[0].pair.has_value());
  BOOST_TEST(parsed("F=1,I=1,W=1").units == 1);
}

BOOST_AUTO_TEST_CASE(numbers_of_too_many_digits_stay_as_they_are) {
  for (const std::string_view f : {"1.7999999999999998", "1e-05", "12345678901"}) {
    const WholeCosts costs = parsed("F=" + std::string(f) + ",I=1,W=1.5", 2);
    BOOST_TEST(costs.units == 1);
    BOOST_TEST(costs.costs.stages[0].forward == std::stod(std::string(f)));
  }
}

BOOST_AUTO_TEST_CASE(all_costs_and_costs_by_stage) {
  const WholeCosts all = parsed("optimizer=9,link=8,hop=7,pair=6,B=5,W=4:3,I=2,F=1:0");
  BOOST_REQUIRE(all.costs.stages.size() == 2u);
  BOOST_TEST(all.costs.stages[1].forward == 0);
  BOOST_TEST(all.costs.stages[1].input_gradient == 2);
  BOOST_TEST(all.costs.stages[0].weight_gradient == 4);
  BOOST_TEST(*all.costs.stages[1].backward == 5);
  BOOST_TEST(*all.costs.stages[1].pair == 6);
  BOOST_TEST(all.costs.hop == 7);
  BOOST_TEST(all.costs.link == 8);
  BOOST_TEST(all.costs.optimizer == 9);
}

BOOST_AUTO_TEST_CASE(gathers_are_whole_also_for_each_unit) {
  const WholeCosts whole = parsed("F=4,I=3,W=3,gF=1:0.5,gB=2,units=8,ahead=0", 2);
  BOOST_TEST(whole.units == 160);
  BOOST_TEST(whole.costs.stages[1].gathers.forward == 80);
  BOOST_TEST(whole.costs.stages[1].gathers.backward == 320);
  BOOST_TEST(whole.costs.gathering.units == 8);
  BOOST_TEST(whole.costs.gathering.ahead == 0);
  BOOST_TEST((parsed("F=1,I=1,W=1").costs.gathering == Gathering{}));
  check_refused("F=1,I=1,W=1,units=0", "units is a whole number from 1");
  check_refused("F=1,I=1,W=1,units=1.5", "units is a whole number");
  check_refused("F=1,I=1,W=1,ahead=20000", "ahead is a whole number from 0 to 10000");
  check_refused("F=1,I=1,W=1,ahead=1:2", "ahead has one value");
}

BOOST_AUTO_TEST_CASE(collectives_add_to_an_action_and_hide_in_a_pair) {
  const WholeCosts whole = parsed("F=4,I=3,W=3:5,cF=2,cI=1,cW=0.5,cB=1");
  BOOST_TEST(whole.units == 10);
  const StageCosts& stage = whole.costs.stages[1];
  BOOST_TEST(computation(stage, Op::F) == 40);
  BOOST_TEST(collective(stage, Op::F) == 20);
  BOOST_TEST(duration(stage, Op::F) == 60);
  BOOST_TEST(duration(stage, Op::I) == 40);
  BOOST_TEST(duration(stage, Op::W) == 55);
  BOOST_TEST(duration(stage, Op::B) == 90);
  BOOST_TEST(pair_duration(stage, stage, Op::B) == 120);
  // Collectives that take longer than the other action's computation are not hidden whole.
  const StageCosts small{.forward = 1, .input_gradient = 1, .weight_gradient = 1};
  BOOST_TEST(pair_duration(stage, small, Op::B) == 60);
  const StageCosts slow{.collectives = {.forward = 9}};
  BOOST_TEST(pair_duration(slow, small, Op::B) == 10);
  // A chunk has its part of the stage's collectives.
  const Plan two = make("zb-v-static", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(collective(chunk_costs(two, {.stages = {stage}})[0], Op::B) == 5);
}

BOOST_AUTO_TEST_CASE(other_texts_are_refused) {
  check_refused("", "F is missing");
  check_refused("F=1,I=1", "W is missing");
  check_refused("F=1,I=1,W=1,X=1", "'X' is no cost");
  check_refused("F=1,I=1,W=1,F=2", "F is given twice");
  check_refused("F", "F= is no duration");
  for (const std::string_view bad : {"", "-1", "x", "1x", "nan", "inf", "1e999", " 1"}) {
    check_refused("I=1,W=1,F=" + std::string(bad), "is no duration");
  }
  check_refused("F=1:2,I=1:2:3,W=1", "F has 2 stages, but another cost has 3");
  check_refused("F=1,I=1,W=1,hop=1:2", "hop has one value");
}

BOOST_AUTO_TEST_CASE(a_chunk_costs_its_part_of_the_stage) {
  const Plan two = make("zb-v-static", {.stages = 2, .chunks = 2, .microbatches = 4});
  const StageCosts stage{.forward = 4, .input_gradient = 6, .weight_gradient = 8, .pair = 20};
  const std::vector<StageCosts> chunks = chunk_costs(two, {.stages = {stage}});
  BOOST_TEST(chunks.size() == 4u);
  BOOST_TEST(duration(chunks[0], Op::F) == 2);
  BOOST_TEST(duration(chunks[1], Op::B) == 7);
  BOOST_TEST(pair_duration(chunks[0], chunks[3], Op::B) == 10);
  BOOST_TEST(pair_duration(chunks[0], chunks[3], Op::I) == 6);
  // With two copies of the parameters a rank has a whole stage of each copy.
  const Plan copies = make("chimera", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(duration(chunk_costs(copies, {.stages = {stage}})[3], Op::F) == 4);
  // Costs given chunk by chunk need not be equal.
  const std::vector<StageCosts> own = {stage, stage, stage, {.forward = 1}};
  BOOST_TEST(duration(chunk_costs(two, {.chunks = own})[3], Op::F) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
