#include <boost/test/unit_test.hpp>

#include "tests/gpu/needs_gpu.h"
#include "tests/gpu/ranks_model.h"
#include "tests/support/early_actions.h"
#include "tests/support/edge_runs.h"

// Tests runs whose number of ranks changes, and shards of a stage, on a GPU that all ranks share.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ranks_test)

namespace {

BOOST_TEST_GLOBAL_FIXTURE(NeedsGpu);

/// What the sums of two shards may change of a loss in few steps of float32.
constexpr double kNearOneShard = 1e-4;

const Keys kModel = ranks_model();

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_changes_its_stages_and_no_bit) {
  check_scaling(Workplace(), kModel);
}

BOOST_AUTO_TEST_CASE(two_shards_have_the_losses_of_one) {
  const Workplace place;
  const Keys keys = with(with(kModel, edges_of("auto")), {{"mesh.pp", "1"}});
  const Numbers alone = trained(place, "alone", keys);
  const Numbers shards = trained(place, "shards", with(keys, {{"mesh.tp", "2"}}));
  BOOST_TEST(shards.size() == alone.size());
  BOOST_TEST(distance(shards, alone) < kNearOneShard, distance(shards, alone));
}

/// The actions of a model of this size last longer on a GPU than it takes to queue them.
BOOST_AUTO_TEST_CASE(the_host_waits_for_no_device_within_a_step) {
  const Workplace place;
  const Keys keys = with(kModel, {{"mesh.pp", "1"},
                                  {"cluster.device", "\"cuda\""},
                                  {"model.hidden_size", "1024"},
                                  {"model.intermediate_size", "2816"},
                                  {"batch.seq_len", "512"},
                                  {"run.max_steps", "1000000"}});
  TroupeProgram run({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 3/"));
  const std::string file = (place.dir / "trace.json").string();
  const Finished traced = troupe({"trace", place.run("run"), "--steps", "3", "-o", file});
  BOOST_REQUIRE_MESSAGE(traced.exit_code == 0, traced.err);
  const auto early = early_actions(nlohmann::json::parse(content_of(file)));
  BOOST_TEST(early.size() == 3u);
  for (const auto& [where, actions] : early) BOOST_TEST(actions > 0, "step " << where.second);
  BOOST_TEST(troupe({"stop", place.run("run")}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
