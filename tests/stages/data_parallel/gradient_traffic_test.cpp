#include <boost/test/unit_test.hpp>

#include "stages/decoder/stage/transformer_stage.h"
#include "stages/replicas/step_collectives.h"
#include "tests/stages/data_parallel/small_stage.h"
#include "tests/support/null_device.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(gradient_traffic_test)

namespace {

constexpr std::int64_t kTable = 301 * 64;

}  // namespace

BOOST_AUTO_TEST_CASE(the_largest_collectives_are_those_of_the_largest_bucket) {
  stages::StageSpec stage = small_stage();
  NullDevice device;
  const std::int64_t all = stages::plan_memory(stage, device).weights / 4;
  const auto one = stages::gradient_traffic({.count = 1}, stage);
  BOOST_TEST(one.at_once == 1);
  BOOST_TEST(one.bucket == all);
  BOOST_TEST(one.slice == 0);
  BOOST_TEST(one.sums == 21);  // a number for each parameter
  const auto many = stages::gradient_traffic({.size = 1}, stage);
  BOOST_TEST(many.at_once == 4);
  BOOST_TEST(many.bucket == kTable);

  stage.state = {.count = 3, .index = 1, .buckets = {.count = 1}};
  const auto divided = stages::gradient_traffic({.count = 1}, stage);
  BOOST_TEST(divided.slice >= all / 3);
  BOOST_TEST(divided.slice < all / 2);
  BOOST_TEST(divided.sums >= all / (3 * 2 * 4096));
}

BOOST_AUTO_TEST_CASE(a_tied_matrix_travels_where_another_stage_has_a_use_of_it) {
  const auto tied = [](const stages::StageSpec& stage) {
    return stages::gradient_traffic({.count = 1}, stage).tied;
  };
  stages::StageSpec stage = small_stage(true);
  BOOST_TEST(tied(stage) == 0);
  stage.chunks[0].embedding = false;
  BOOST_TEST(tied(stage) == kTable);
  stage.chunks[0].head = false;
  BOOST_TEST(tied(stage) == 0);
  stage = small_stage(false);
  stage.chunks[0].head = false;
  BOOST_TEST(tied(stage) == 0);
}

BOOST_AUTO_TEST_CASE(shards_sum_norms_and_shared_heads) {
  stages::StageSpec stage = small_stage();
  stage.sharding = {.size = 4, .shard = 1, .sequence_parallel = true};
  const auto traffic = stages::gradient_traffic({.count = 1}, stage);
  BOOST_TEST(traffic.norms == 5 * 64);              // two of each layer, and the last
  BOOST_TEST(traffic.kv_heads == 2 * 2 * 16 * 64);  // keys and values of one head
  BOOST_TEST(stages::gradient_traffic({.size = 1}, stage).norms == 64);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
