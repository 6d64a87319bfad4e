#include "launch/report/metrics.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <sstream>

namespace troupe::test {
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

}  // namespace troupe::test
