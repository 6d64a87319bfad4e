#include "actors/topology/memory/memory_plan.h"

#include <boost/test/unit_test.hpp>
#include <set>

#include "actors/topology/rank_groups.h"
#include "actors/topology/state/state_parts.h"
#include "stages/replicas/data_parallel.h"
#include "tensor/device/device.h"
#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(memory_plan_test)

BOOST_AUTO_TEST_CASE(a_change_takes_both_shapes_in_the_same_processes) {
  const RunSpec spec = test::small_run(2, 1);
  const ClusterShape two = first_shape(spec);
  const ClusterShape four = first_shape(test::small_run(4, 1));
  const std::int64_t both = total_memory(spec, two) + total_memory(spec, four);
  BOOST_TEST(total_memory_of_change(spec, two, four) == both - 2 * kProcessBytes);
  BOOST_TEST(total_memory_of_change(spec, four, two) == both - 2 * kProcessBytes);
  BOOST_TEST(total_memory_of_change(spec, two, two) ==
             2 * (total_memory(spec, two) - kProcessBytes));
}

BOOST_AUTO_TEST_CASE(a_change_on_full_gpus_keeps_the_state_in_host_memory_too) {
  RunSpec spec = test::small_run(2, 1);
  const ClusterShape two = first_shape(spec), four = first_shape(test::small_run(4, 1));
  spec.cluster.device.kind = tensor::DeviceKind::cuda;
  std::int64_t state = 0, processes = 0;
  for (const RankMemory& rank : memory_of(spec, two, assemble(spec, two))) {
    state += rank.allocated.stage.weights + rank.allocated.stage.optimizer;
    processes += rank.process;
  }
  BOOST_TEST(state > 0);
  BOOST_TEST(total_memory_of_change(spec, two, four) ==
             total_memory(spec, two) + total_memory(spec, four) + state - processes);
}

BOOST_AUTO_TEST_CASE(a_spare_counts_as_the_largest_rank) {
  RunSpec spec = test::small_run(2, 1);
  const ClusterShape two = first_shape(spec), four = first_shape(test::small_run(4, 1));
  const auto spare_of = [&](const ClusterShape& shape) {
    const auto ranks = memory_of(spec, shape, assemble(spec, shape));
    const std::int64_t spare = memory_of_spare(ranks).total();
    for (const RankMemory& rank : ranks) BOOST_TEST(spare >= rank.total());
    return spare;
  };
  const std::int64_t without = total_memory(spec, two);
  const std::int64_t change = total_memory_of_change(spec, two, four);
  spec.recovery.spares = 3;
  BOOST_TEST(total_memory(spec, two) == without + 3 * spare_of(two));
  BOOST_TEST(total_memory_of_change(spec, two, four) ==
             change + 3 * std::max(spare_of(two), spare_of(four)));
}

namespace {

/// Compares with what each rank's own stage takes, whole model and all.
void check_each_rank(const RunSpec& spec) {
  const auto cpu = tensor::make_cpu_device(1);
  const ClusterShape shape = first_shape(spec);
  const Assembly assembly = assemble(spec, shape);
  const auto memory = memory_of(spec, shape, assembly);
  BOOST_REQUIRE(std::ssize(memory) == shape.num_ranks());
  stages::DataParallelSpec data_parallel = spec.data_parallel;
  data_parallel.microbatches = spec.num_microbatches();
  std::set<std::int64_t> optimizers;
  for (int rank = 0; rank < shape.num_ranks(); ++rank) {
    BOOST_TEST_CONTEXT(to_string(shape) << ", division " << static_cast<int>(data_parallel.division)
                                        << ", rank " << rank) {
      const RankAssembly part = part_of_run(assembly, spec, shape, rank);
      const stages::StageMemory own = stages::plan_memory(part.stage, *cpu);
      const AllocatedMemory& planned = memory[static_cast<std::size_t>(rank)].allocated;
      BOOST_TEST(planned.stage.weights == own.weights);
      BOOST_TEST(planned.stage.gradients == own.gradients);
      BOOST_TEST(planned.stage.optimizer == own.optimizer);
      BOOST_TEST(planned.stage.activations == own.activations);
      BOOST_TEST(planned.stage.total() == own.total());
      BOOST_TEST(planned.buckets ==
                 stages::data_parallel_bytes(data_parallel, part.stage, spec.mesh.dp));
      BOOST_TEST(planned.collectives == collectives_bytes(spec, part));
      optimizers.insert(own.optimizer);
    }
  }
  if (divides_state(spec, shape)) BOOST_TEST(optimizers.size() > 2u);  // slices differ
}

}  // namespace

/// Ranks are planned by stage: its shards are alike, and so are layers.
BOOST_AUTO_TEST_CASE(each_rank_takes_what_its_own_stage_does) {
  using Division = stages::StateDivision;
  for (const Division division :
       {Division::none, Division::optim, Division::optim_grads, Division::optim_grads_params}) {
    RunSpec spec = test::small_run(2, 4);
    spec.data_parallel.division = division;
    check_each_rank(spec);
    spec.mesh.tp = 2;
    spec.mesh.sequence_parallel = true;
    spec.model.tie_word_embeddings = true;
    spec.layout = "ends";
    check_each_rank(spec);
    spec.schedule = {.kind = "zb-v", .chunks = 2};
    spec.batch.global = 64;
    check_each_rank(spec);
  }
  RunSpec copies = test::small_run(2);
  copies.schedule = {.kind = "dualpipe", .chunks = 2};
  check_each_rank(copies);
  RunSpec grouped = test::small_run(3);
  grouped.model.groups = {{.match = "model.layers.[012].*", .update = {.frozen = true}}};
  check_each_rank(grouped);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
