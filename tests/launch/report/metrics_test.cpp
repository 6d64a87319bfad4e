#include "launch/report/metrics.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <sstream>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(metrics_test)

namespace {

launch::Metrics read(const std::string& text) {
  std::istringstream file(text);
  return launch::read_metrics(file);
}

std::string step_line(int step, const std::string& stages) {
  return R"({"step":)" + std::to_string(step) +
         R"(,"loss":2.5,"grad_norm":1,"lr":0.1,"tokens":100,"step_s":0.5,"stages":[)" + stages +
         "]}\n";
}
const std::string kOne =
    R"({"replica":0,"stage":0,"shard":0,"busy_s":0.2,"idle_s":0.1,"collective_s":0.05})";
const std::string kTwo =
    R"({"replica":0,"stage":1,"shard":0,"busy_s":0.4,"idle_s":0.3,"collective_s":0})";

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_has_the_means_of_its_ranks) {
  const auto metrics = read(step_line(1, kOne + "," + kTwo) + R"({"step":1,"eval_loss":2.25})");
  BOOST_REQUIRE(metrics.steps.size() == 1u);
  const launch::StepRow& row = metrics.steps[0];
  BOOST_TEST(row.loss == 2.5);
  BOOST_TEST(row.tokens_per_s() == 200);
  const auto near = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(row.busy_s == 0.3, near);
  BOOST_TEST(row.idle_s == 0.2, near);
  BOOST_TEST(row.collective_s == 0.025, near);
  BOOST_REQUIRE(metrics.evaluations.size() == 1u);
  BOOST_TEST(metrics.evaluations[0].loss == 2.25);
}

BOOST_AUTO_TEST_CASE(of_groups_that_work_side_by_side_the_longest_counts) {
  const auto metrics = read(R"({"step":1,"collectives":[{"group":"a","exposed_s":1},)"
                            R"({"group":"b","exposed_s":2},{"group":"a","exposed_s":1.5}]})"
                            "\n"
                            R"({"step":2,"collectives":[{"group":"b","exposed_s":0.5}]})");
  BOOST_REQUIRE(metrics.steps.size() == 2u);
  BOOST_TEST(metrics.steps[0].exposed_s == 2.5);
  BOOST_TEST(launch::exposed_s(metrics) == 3);
}

BOOST_AUTO_TEST_CASE(sources_have_the_losses_of_the_steps_that_had_a_sample_of_them) {
  const auto metrics = read(R"({"step":1,"sources":[{"name":"books","loss":3,"tokens":60},)"
                            R"({"name":"code","loss":null,"tokens":0}]})"
                            "\n"
                            R"({"step":2,"sources":[{"name":"books","loss":2,"tokens":40},)"
                            R"({"name":"code","loss":4,"tokens":10}]})");
  BOOST_REQUIRE(metrics.sources.size() == 2u);
  const std::vector<launch::Point> books{{1, 3}, {2, 2}}, code{{2, 4}};
  BOOST_TEST(metrics.sources[0].name == "books");
  BOOST_TEST(metrics.sources[0].tokens == 100);
  BOOST_TEST((metrics.sources[0].losses == books));
  BOOST_TEST((metrics.sources[1].losses == code));
  BOOST_TEST(read(step_line(1, kOne)).sources.empty());
}

BOOST_AUTO_TEST_CASE(of_gpus_the_rate_and_the_fullest_memory_are_known) {
  const auto line = [](int step, int used) {
    return R"({"step":)" + std::to_string(step) +
           R"(,"mfu":0.25,"stages":[{"stage":0,"device_used_bytes":2,"device_total_bytes":9},)" +
           R"({"stage":1,"device_used_bytes":)" + std::to_string(used) +
           R"(,"device_total_bytes":8}]})" + "\n";
  };
  const auto metrics = read(line(1, 3) + line(2, 6) + line(3, 4));
  const launch::RankTimes* fullest = launch::fullest_gpu(metrics);
  BOOST_REQUIRE(fullest);
  BOOST_TEST(fullest->stage == 1);
  BOOST_TEST(fullest->device_used_bytes == 6u);
  BOOST_TEST(fullest->device_total_bytes == 8u);
  BOOST_TEST(launch::mfu_curve(metrics).raw.front().y == 25);
  const auto without = read(step_line(1, kOne));
  BOOST_TEST(!launch::fullest_gpu(without));
  BOOST_TEST(launch::mfu_curve(without).raw.empty());
}

BOOST_AUTO_TEST_CASE(what_is_torn_repeated_or_strange_is_left_out) {
  const std::string whole = step_line(3, kOne);
  const auto metrics = read(whole + step_line(2, kOne) + whole + "{}\n[]\n7\n\n{\"step\":\"x\"}\n" +
                            R"({"step":4,"loss":null})" + "\n" + step_line(5, kOne).substr(0, 30));
  BOOST_REQUIRE(metrics.steps.size() == 2u);
  BOOST_TEST(metrics.steps[0].step == 3);
  BOOST_TEST(metrics.steps[1].step == 4);
  BOOST_TEST(std::isnan(metrics.steps[1].loss));
  BOOST_TEST(std::isnan(metrics.steps[1].busy_s));
  BOOST_TEST(launch::loss_curve(metrics).raw.size() == 1u);
  BOOST_TEST(read("").steps.empty());
}

BOOST_AUTO_TEST_CASE(sums_by_rank_begin_with_the_second_step_of_a_shape) {
  const std::string both = kOne + "," + kTwo;
  const auto metrics = read(step_line(1, kOne) + step_line(2, kOne) + step_line(3, both) +
                            step_line(4, both) + step_line(5, both));
  BOOST_REQUIRE(metrics.ranks.size() == 2u);
  BOOST_TEST(metrics.num_summed == 2);
  BOOST_TEST(metrics.ranks[1].stage == 1);
  BOOST_TEST(metrics.ranks[1].busy_s == 0.8, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
