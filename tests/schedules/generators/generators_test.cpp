#include "schedules/generators/generators.h"

#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(generators_test)

using namespace troupe::schedules;

BOOST_AUTO_TEST_CASE(gpipe_runs_all_forwards_then_all_backwards) {
  const Plan plan = make("gpipe", {.stages = 3, .microbatches = 4});
  BOOST_TEST(order(plan, 0) == "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3");
  BOOST_TEST(order(plan, 1) == "1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3");
  BOOST_TEST(order(plan, 2) == "2F0 2F1 2F2 2F3 2B0 2B1 2B2 2B3");
}

BOOST_AUTO_TEST_CASE(one_f_one_b_of_4_stages_and_8_microbatches) {
  const Plan plan = make("1f1b", {.stages = 4, .microbatches = 8});
  BOOST_TEST(order(plan, 0) == "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7");
  BOOST_TEST(order(plan, 1) == "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7");
  BOOST_TEST(order(plan, 3) == "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7");
}

BOOST_AUTO_TEST_CASE(one_f_one_b_with_fewer_microbatches_than_stages) {
  const Plan plan = make("1f1b", {.stages = 4, .microbatches = 2});
  BOOST_TEST(order(plan, 0) == "0F0 0F1 0B0 0B1");
  BOOST_TEST(order(plan, 1) == "1F0 1F1 1B0 1B1");
  BOOST_TEST(order(plan, 2) == "2F0 2F1 2B0 2B1");
  BOOST_TEST(order(plan, 3) == "3F0 3B0 3F1 3B1");
  BOOST_TEST(rule_broken(plan) == "");
}

BOOST_AUTO_TEST_CASE(interleaved_of_2_stages_2_chunks_and_4_microbatches) {
  const Plan plan = make("interleaved", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(order(plan, 0) == "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  BOOST_TEST(order(plan, 1) == "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

BOOST_AUTO_TEST_CASE(forward_only_takes_groups_of_p_through_every_chunk) {
  const Plan plan = make("forward-only", {.stages = 2, .chunks = 2, .microbatches = 3});
  BOOST_TEST(order(plan, 0) == "0F0 0F1 2F0 2F1 0F2 2F2");
  BOOST_TEST(order(plan, 1) == "1F0 1F1 3F0 3F1 1F2 3F2");
}

BOOST_AUTO_TEST_CASE(chunks_loop_over_the_ranks) {
  const Plan plan = make("interleaved", {.stages = 3, .chunks = 2, .microbatches = 3});
  BOOST_TEST(plan.rank_of_chunk == std::vector({0, 1, 2, 0, 1, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(plan.num_microbatches == 3);
  BOOST_TEST(plan.kind == "interleaved");
}

BOOST_AUTO_TEST_CASE(the_table_knows_its_names) {
  for (const std::string_view name :
       {"gpipe",       "1f1b",   "interleaved",   "looped-bfs",     "zb-h1",
        "zb-h2",       "zb-1p",  "zb-2p",         "interleaved-zb", "zb-v",
        "zb-v-static", "v-half", "v-min",         "dualpipe",       "dualpipe-v",
        "chimera",     "hanayo", "combined-1f1b", "zb-auto",        "forward-only"}) {
    const Generator* generator = find_generator(name);
    BOOST_REQUIRE_MESSAGE(generator != nullptr, name);
    BOOST_TEST(generator->name == name);
    BOOST_TEST(!generator->source.empty());
  }
  BOOST_TEST(find_generator("1f2b") == nullptr);
  BOOST_TEST(find_generator("") == nullptr);
}

namespace {

/// Why a schedule refuses a shape.
std::string why_not(std::string_view kind, const ScheduleShape& shape) {
  return find_generator(kind)->check(shape);
}
bool says(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (message.find(part) == std::string::npos) return false;
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(impossible_shapes_are_refused_with_numbers_and_a_way_out) {
  const auto message = why_not("interleaved", {.stages = 4, .chunks = 2, .microbatches = 7});
  BOOST_TEST(says(message, {"7", "4", "leaves 3", "nearest", "is 8"}), message);
  const auto below = why_not("interleaved", {.stages = 4, .chunks = 2, .microbatches = 9});
  BOOST_TEST(says(below, {"is 8"}), below);
  const auto few = why_not("interleaved", {.stages = 4, .chunks = 2, .microbatches = 1});
  BOOST_TEST(says(few, {"is 4"}), few);
  const auto single = why_not("interleaved", {.stages = 4, .chunks = 1, .microbatches = 8});
  BOOST_TEST(says(single, {"chunks = 1", "1f1b"}), single);
  for (const std::string_view kind : {"1f1b", "gpipe"}) {
    const auto chunks = why_not(kind, {.stages = 2, .chunks = 3, .microbatches = 4});
    BOOST_TEST(says(chunks, {kind, "chunks = 3", "interleaved"}), chunks);
  }
}

BOOST_AUTO_TEST_CASE(shapes_without_stages_or_beyond_memory_are_refused_by_all) {
  for (const Generator& generator : generators()) {
    BOOST_TEST(says(generator.check({.stages = 0}), {"stages = 0"}));
    BOOST_TEST(says(generator.check({.chunks = -1}), {"chunks = -1"}));
    BOOST_TEST(says(generator.check({.microbatches = 0}), {"microbatches = 0"}));
    BOOST_TEST(says(generator.check({.stages = 1000, .microbatches = 2'000'000'000}),
                    {"1000", "2000000000"}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
