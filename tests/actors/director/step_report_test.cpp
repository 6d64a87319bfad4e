#include "actors/director/step_report.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

BOOST_AUTO_TEST_SUITE(step_report_test)

using namespace troupe::actors;

namespace {

Prepared vote(int rank, std::vector<StepReport::SourceSum> sources) {
  return {.rank = rank, .sources = std::move(sources)};
}

std::shared_ptr<const StepReport::Measured> replica(const std::vector<Prepared>& votes) {
  return std::make_shared<StepReport::Measured>(
      measured({.pp = static_cast<int>(votes.size())}, votes));
}

}  // namespace

BOOST_AUTO_TEST_CASE(losses_of_sources_are_means_over_all_replicas) {
  const std::vector<RunSpec::Data::Source> sources{
      {.name = "a", .tokens = ""}, {.name = "b", .tokens = ""}, {.name = "c", .tokens = ""}};
  // In the second replica both ranks have losses, as with two copies of the parameters.
  const auto losses =
      losses_of(sources, {replica({vote(0, {}), vote(1, {{3, 2}, {8, 4}, {}})}),
                          replica({vote(0, {{1, 1}, {}, {}}), vote(1, {{2, 1}, {4, 2}, {}})})});
  BOOST_REQUIRE(losses.size() == 3u);
  BOOST_TEST(losses[0].name == "a");
  BOOST_TEST(losses[0].loss == 6.0 / 4);
  BOOST_TEST(losses[0].tokens == 4);
  BOOST_TEST(losses[1].loss == 12.0 / 6);
  BOOST_TEST(losses[1].tokens == 6);
  BOOST_TEST(std::isnan(losses[2].loss));
  BOOST_TEST(losses[2].tokens == 0);
}

BOOST_AUTO_TEST_CASE(a_worker_that_tells_of_more_sources_than_there_are_is_cut_off) {
  const auto all = replica({vote(0, {{1, 1}, {2, 1}, {3, 1}})});
  BOOST_TEST(losses_of({{.name = "a", .tokens = ""}, {.name = "b", .tokens = ""}}, {all}).size() ==
             2u);
  BOOST_TEST(losses_of({{.name = "", .tokens = ""}}, {all}).empty());
  BOOST_TEST(losses_of({}, {nullptr}).empty());
}

BOOST_AUTO_TEST_CASE(parts_of_routers_add_up_over_replicas) {
  const auto part = [](int layer, double of_first) {
    Prepared all = vote(layer, {});
    all.routers = {{.layer = layer,
                    .load = {of_first, 1 - of_first},
                    .entropy = 0.25,
                    .balance = of_first,
                    .z = 2}};
    return all;
  };
  const auto all = {replica({part(0, 0.25), part(1, 0.5)}), replica({part(0, 0.5), part(1, 0.5)}),
                    std::shared_ptr<const StepReport::Measured>()};
  const auto routers = routers_of(all);
  BOOST_REQUIRE(routers.size() == 2u);
  BOOST_TEST(routers[0].layer == 0);
  BOOST_TEST(routers[0].load == std::vector({0.75, 1.25}));
  BOOST_TEST(routers[0].entropy == 0.5);
  BOOST_TEST(routers[1].balance == 1.0);
  troupe::stages::ModelConfig model{.kind = troupe::stages::ModelKind::mixtral,
                                    .num_hidden_layers = 2};
  model.experts = {.count = 2, .per_token = 1, .width = 8, .aux_loss_coef = 0.5};
  BOOST_TEST(aux_loss_of(model, routers) == 0.5 * (0.75 + 1.0) / 2);
  model.experts.z_loss_coef = 0.25;
  BOOST_TEST(aux_loss_of(model, routers) == (0.5 * (0.75 + 1.0) + 0.25 * 8) / 2);
  BOOST_TEST(aux_loss_of({}, {}) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
