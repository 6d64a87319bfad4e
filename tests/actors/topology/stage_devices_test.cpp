#include "actors/topology/stage_devices.h"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "actors/topology/assembly.h"
#include "actors/topology/memory/memory_plan.h"
#include "actors/topology/scale.h"
#include "tests/support/expect_error.h"
#include "tests/support/run_specs.h"

// Tests runs whose stages have several kinds of devices.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(stage_devices_test)

BOOST_AUTO_TEST_CASE(stages_have_kinds_of_devices_as_long_as_they_are_as_many) {
  using tensor::DeviceKind;
  RunSpec spec = test::small_run(2);
  spec.mesh.set_widths({{.dp = 2}, {.dp = 1}});  // ranks 0 2 | 1
  BOOST_TEST(!uses_gpus(spec));
  BOOST_TEST(ranks_on_gpus(spec).empty());
  spec.cluster.stage_kinds = {DeviceKind::cuda, DeviceKind::cpu};
  BOOST_TEST(uses_gpus(spec));
  BOOST_TEST((ranks_on_gpus(spec) == std::vector{0, 2}));
  BOOST_TEST((device_of(spec, spec.mesh, 0).kind == DeviceKind::cuda));
  BOOST_TEST((device_of(spec, spec.mesh, 1).kind == DeviceKind::cpu));
  BOOST_TEST(differ_in_device(spec, spec.mesh, {0, 1}));
  BOOST_TEST(!differ_in_device(spec, spec.mesh, {0, 2}));
  const RunSpec::Mesh three{.pp = 3};
  for (int stage = 0; stage < 3; ++stage)
    BOOST_TEST((device_of(spec, three, stage).kind == DeviceKind::cpu));
  ScaleRequest deeper;
  deeper.pp = 3;
  deeper.dp = deeper.tp = 1;
  test::expect_error(ErrorKind::usage, {"--pp 3", "2 stages", "[[stage]] device"},
                     [&] { scaled(spec, first_shape(spec), deeper); });
}

BOOST_AUTO_TEST_CASE(memory_of_several_devices_is_counted_by_stage) {
  RunSpec spec = test::small_run(3);
  const ClusterShape shape = first_shape(spec);
  const auto memory = [&] { return memory_of(spec, shape, assemble(spec, shape)); };
  const auto on_cpus = memory();
  spec.cluster.stage_kinds = {tensor::DeviceKind::cpu, tensor::DeviceKind::cuda,
                              tensor::DeviceKind::cuda};
  const auto mixed = memory();
  BOOST_TEST(mixed[0].device_total() == 0);
  BOOST_TEST(mixed[0].total() == on_cpus[0].total());
  for (const int rank : {1, 2}) BOOST_TEST(mixed[static_cast<std::size_t>(rank)].on_gpu);
  using transport::EdgePlacement;
  BOOST_TEST((mixed[1].placements.at(0) == EdgePlacement::staged));
  BOOST_TEST((mixed[1].placements.at(2) == EdgePlacement::peer));
  BOOST_TEST(memory_of_spare(mixed).on_gpu);
  spec.cluster.stage_kinds.clear();
  spec.cluster.device.kind = tensor::DeviceKind::cuda;
  const auto on_gpus = memory();
  BOOST_TEST(mixed[1].allocated.pools > on_gpus[1].allocated.pools);
  BOOST_TEST(mixed[2].total() == on_gpus[2].total());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
