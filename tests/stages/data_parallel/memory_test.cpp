#include <boost/test/unit_test.hpp>
#include <memory>

#include "stages/decoder/stage/transformer_stage.h"
#include "stages/replicas/data_parallel.h"
#include "tests/stages/data_parallel/small_stage.h"
#include "tests/support/null_device.h"
#include "tests/tensor/thread_group.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(memory_test)

namespace {

using stages::DataParallelSpec;
using stages::StateDivision;

}  // namespace

BOOST_AUTO_TEST_CASE(data_parallelism_allocates_what_it_plans) {
  const auto meeting = std::make_shared<tensor::Meeting>(2);
  tensor::ThreadGroup group(meeting, 0, tensor::Moves::at_call);
  for (const StateDivision division :
       {StateDivision::none, StateDivision::optim, StateDivision::optim_grads,
        StateDivision::optim_grads_params})
    for (const tensor::DType wire : {tensor::DType::f32, tensor::DType::bf16})
      for (const bool checks : {false, true}) {
        const DataParallelSpec spec{
            .division = division, .buckets = {.size = 9000}, .wire = wire, .checks_finite = checks};
        stages::StageSpec of_stage = small_stage();
        if (division != StateDivision::none)
          of_stage.state = {.count = 2,
                            .index = 0,
                            .buckets = spec.buckets,
                            .gradients = spec.divides_gradients(),
                            .weights = spec.divides_weights()};
        NullDevice device;
        const auto stage = stages::make_transformer_stage(of_stage, device);
        const std::size_t before = device.allocated();
        const auto all =
            stages::make_data_parallel(spec, *stage,
                                       {.replicas = {.group = &group, .name = "replicas"},
                                        .forward_weights = &group,
                                        .backward_weights = &group},
                                       device);
        BOOST_TEST(all->allocated() == static_cast<std::int64_t>(device.allocated() - before));
        BOOST_TEST(all->allocated() == stages::data_parallel_bytes(spec, of_stage, 2));
        BOOST_TEST((all->allocated() > 0) ==
                   (checks || wire == tensor::DType::bf16 || division != StateDivision::none));
      }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
