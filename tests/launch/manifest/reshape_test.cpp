#include <boost/test/unit_test.hpp>
#include <optional>
#include <set>

#include "actors/topology/scale.h"
#include "actors/topology/schedule_kinds.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"

// Every shape that a live change can reach is one that a resume accepts.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(reshape_test)

namespace {

using actors::ClusterShape;
using launch::Manifest;

/// Some orders, valid and not.
std::vector<actors::ScaleRequest> orders() {
  std::vector<actors::ScaleRequest> all;
  for (const int n : {1, 2, 3, 4}) {
    all.push_back({.pp = n});
    all.push_back({.dp = n});
    all.push_back({.tp = n});
    all.push_back({.pp = 2, .dp = n, .tp = 2});
  }
  for (const std::string_view kind : actors::schedule_kinds()) {
    all.push_back({.schedule = std::string(kind)});
    all.push_back({.pp = 1, .dp = 4, .schedule = std::string(kind)});
  }
  for (const char* layout : {"ends", "6", "5,1", "0,3,3"}) {
    all.push_back({.layout = layout});
    all.push_back({.pp = 2, .layout = layout});
  }
  return all;
}

/// Some that follow another.
std::vector<actors::ScaleRequest> later_orders() {
  return {{.pp = 1}, {.pp = 3}, {.dp = 1}, {.dp = 2}, {.tp = 1}, {.schedule = "gpipe"}};
}

/// Checks that a resume accepts the run in each shape that one order, or two, make of its first.
void check_all(const std::vector<std::string>& overrides) {
  const Manifest first = checked(kSmallManifest, overrides);
  const actors::RunSpec spec = launch::to_run_spec(first);
  int reached = 0;
  const auto reach = [&](const ClusterShape& from, const actors::ScaleRequest& order,
                         const std::string& name) -> std::optional<ClusterShape> {
    try {
      const ClusterShape shape = actors::scaled(spec, from, order);
      ++reached;
      try {
        Manifest saved = Manifest::parse(launch::with_shape(first, shape, kMachine).to_toml(),
                                         "manifest.toml", {});
        launch::resolve(saved, kMachine);
        launch::check(saved, launch::Purpose::resume);
        BOOST_TEST((actors::first_shape(launch::to_run_spec(saved)) == shape),
                   name << " is resumed as another shape");
      } catch (const Error& error) {
        BOOST_ERROR(name << ": " << error.what());
      }
      return shape;
    } catch (const Error&) {
      return std::nullopt;  // the run refuses the order
    }
  };
  std::string base;
  for (const std::string& override_ : overrides) base += override_ + " ";
  const ClusterShape start = actors::first_shape(spec);
  for (const auto& order : orders())
    if (const auto shape = reach(start, order, base + to_string(order)))
      for (const auto& then : later_orders())
        reach(*shape, then, base + to_string(order) + ", then " + to_string(then));
  // What is left after losses may be changed, too.
  std::set<int> lost;
  for (int rank = 0; rank < start.mesh.num_ranks(); ++rank) {
    lost.insert(rank);
    if (const auto left = actors::shrunk(spec, start, lost))
      for (const auto& then : later_orders())
        reach(left->shape, then,
              base + std::to_string(rank + 1) + " lost, then " + to_string(then));
  }
  BOOST_TEST(reached > 10, base);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_live_change_makes_can_be_resumed) {
  check_all({});
  check_all({"mesh.pp=2", "schedule.kind=interleaved", "schedule.chunks=3"});
  check_all({"mesh.pp=2", "schedule.costs='F=1,I=2,W=1,hop=0'"});
  check_all({"mesh.pp=2", "schedule.costs='F=1:2,I=1:2,W=1:2,hop=0'"});
  check_all({"mesh.pp=2", "mesh.layout='4,2'"});
  check_all({"mesh.tp=2", "mesh.sequence_parallel=true", "recompute.mode=full"});
  check_all({"mesh.tp=2", "recompute.mode=full", "recompute.distribute_saved_activations=true"});
}

BOOST_AUTO_TEST_CASE(what_a_live_change_makes_of_divided_state_can_be_resumed) {
  for (const char* sharding : {"optim", "optim_grads", "optim_grads_params"})
    check_all({"mesh.dp=2", std::string("data_parallel.sharding=") + sharding});
  check_all(
      {"mesh.dp=4", "data_parallel.sharding=optim", "data_parallel.num_optimizer_instances=2"});
  check_all({"mesh.dp=2", "data_parallel.sharding=optim_grads_params", "data_parallel.prefetch=2",
             "data_parallel.on_difference=repair"});
  check_all({"mesh.dp=2", "mesh.pp=2", "schedule.kind=dualpipe", "batch.micro=1"});
}

BOOST_AUTO_TEST_CASE(a_new_run_that_divides_its_state_among_one_replica_is_refused) {
  refused({"data_parallel.sharding=optim"}, {"mesh.dp = 1", "nothing to shard over"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
