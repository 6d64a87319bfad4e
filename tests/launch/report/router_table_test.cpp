#include "launch/report/router_table.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <sstream>

#include "launch/report/metrics.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(router_table_test)

using Routers = std::vector<actors::StepReport::Router>;

namespace {

/// Two experts of three for each token.
const Routers kRouters{{.layer = 1, .load = {0.5, 0.5, 1}, .entropy = 0.75, .balance = 2.25},
                       {.layer = 3, .load = {0.25, 0.75, 1}, .entropy = 0.5, .balance = 2.5}};

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(loads_are_told_relative_to_even_ones) {
  BOOST_TEST(launch::busiest_expert(kRouters) == 1.5);
  const std::string table = launch::router_table(kRouters);
  BOOST_TEST(has(table, "0.75 0.75 1.50"), table);
  BOOST_TEST(has(table, "0.38 1.12 1.50"), table);
  BOOST_TEST(has(table, "2.250"), table);
}

BOOST_AUTO_TEST_CASE(a_model_without_experts_has_no_table) {
  BOOST_TEST(std::isnan(launch::busiest_expert({})));
  BOOST_TEST(launch::router_table({}).empty());
  BOOST_TEST(launch::router_table({{.layer = 0}}).empty());
}

BOOST_AUTO_TEST_CASE(metrics_have_those_of_the_newest_step) {
  std::istringstream file(
      R"({"step":1,"loss":2,"aux_loss":0.5,"routers":[{"layer":0,"load":[2,0]}]})"
      "\n"
      R"({"step":2,"loss":2,"aux_loss":0.25,"routers":[{"layer":0,"load":[1.5,0.5]}]})"
      "\n");
  const launch::Metrics metrics = launch::read_metrics(file);
  BOOST_REQUIRE(metrics.routers.size() == 1u);
  BOOST_TEST(metrics.routers[0].load == std::vector({1.5, 0.5}));
  BOOST_REQUIRE(launch::aux_curve(metrics).raw.size() == 2u);
  BOOST_TEST(launch::aux_curve(metrics).raw[1].y == 0.25);
  BOOST_TEST(launch::load_curve(metrics).raw[0].y == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
