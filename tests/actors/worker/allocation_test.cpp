#include <atomic>
#include <boost/test/unit_test.hpp>

#include "actors/worker/step/plan_runner.h"
#include "stages/replicas/data_parallel.h"
#include "tests/support/counted_new.h"
#include "tests/support/gradient_stage.h"
#include "tests/support/null_stage.h"
#include "tests/support/run_specs.h"
#include "tests/support/thread_cluster.h"
#include "tests/transport/ucx/ucx_nodes.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(allocation_test)

BOOST_AUTO_TEST_CASE(interpreter_and_data_plane_allocate_nothing_after_the_second_step) {
  RunSpec spec = test::small_run(2);
  spec.schedule = {.kind = "interleaved", .chunks = 2};
  spec.model.hidden_size = 1024;  // messages above and below the rendezvous threshold
  for (const auto& [micro, documents] : {std::pair{1, stages::Documents::joined},
                                         {8, stages::Documents::joined},
                                         {8, stages::Documents::packed}}) {
    spec.batch.micro = micro;
    spec.batch.documents = documents;
    spec.batch.global = 8 * micro;
    const test::ThreadCluster cluster(spec);
    std::unique_ptr<transport::UcxNode> nodes[] = {transport::UcxNode::create({}),
                                                   transport::UcxNode::create({})};
    nodes[0]->connect(1, 11, nodes[1]->address());
    nodes[1]->connect(0, 10, nodes[0]->address());
    long before = -1, after = -2;
    test::on_ranks(2, [&](int rank) {
      test::NullStage stage(2, cluster.part(rank).edges.front().shape);
      auto& channel = nodes[rank]->channel();
      channel.set_deadline(std::chrono::seconds(60));
      cluster.open(channel, rank);
      PlanRunner runner = cluster.runner(rank, stage, channel, stage.device());
      for (std::uint64_t step = 0; step < 40; ++step) {
        if (rank == 0 && step == 3) before = test::allocations;
        runner.train(static_cast<std::int64_t>(step), step);
      }
      if (rank == 0) after = test::allocations;
    });
    BOOST_TEST(before == after,
               after - before << " allocations at " << micro << " samples a microbatch");
  }
}

BOOST_AUTO_TEST_CASE(reductions_of_gradients_allocate_nothing_after_the_second_step) {
  for (const auto wire : {tensor::DType::f32, tensor::DType::bf16}) {
    test::UcxNodes nodes(2);
    long before = -1, after = -2;
    test::on_ranks(2, [&](int rank) {
      test::GradientStage stage(std::vector<std::int64_t>(40, 30'000));
      const auto group = nodes.node(rank).make_group(1, 1, 1, "replicas", {0, 1}, rank);
      const auto all = stages::make_data_parallel(
          {.buckets = {.size = 1}, .wire = wire, .checks_finite = true}, stage,
          {.replicas = {.group = group.get(), .name = "replicas"}}, stage.device());
      for (int step = 0; step < 40; ++step) {
        if (rank == 0 && step == 4) before = test::allocations;
        all->begin_step();
        for (int i = 39; i >= 0; --i) {
          all->added(stage.adder(i), stages::Microbatch::last, stage.ran(0, 0));
          all->progress();
        }
        all->finish();
      }
      if (rank == 0) after = test::allocations;
      group->barrier(stage.stream_of(stages::Pass::backward))->wait();
    });
    BOOST_TEST(before == after, after - before << " allocations");
  }
}

BOOST_AUTO_TEST_CASE(gathers_of_weights_allocate_nothing_after_the_second_step) {
  for (const bool reshards : {true, false}) {
    test::UcxNodes nodes(2);
    long before = -1, after = -2;
    test::on_ranks(2, [&](int rank) {
      const stages::DataParallelSpec spec{.division = stages::StateDivision::optim_grads_params,
                                          .buckets = {.size = 1},
                                          .reshards = reshards};
      test::GradientStage stage(std::vector<std::int64_t>(20, 30'000), spec,
                                {.count = 2, .index = rank});
      const auto group_of = [&](int number, const char* name) {
        return nodes.node(rank).make_group(1, 1, number, name, {0, 1}, rank);
      };
      const auto group = group_of(1, "replicas"), forward = group_of(2, "forwards"),
                 backward = group_of(3, "backwards");
      const auto all =
          stages::make_data_parallel(spec, stage,
                                     {.replicas = {.group = group.get(), .name = "replicas"},
                                      .forward_weights = forward.get(),
                                      .backward_weights = backward.get()},
                                     stage.device());
      stages::UnitOrder order;
      for (int i = 0; i < 20; ++i) {
        order.forward.push_back(19 - i);
        order.backward.push_back(i);
      }
      const auto read = [&](stages::Pass pass, int bucket) {
        all->open(pass, stage.nodes(0, pass)[static_cast<std::size_t>(bucket)]);
        all->progress();
      };
      std::vector<double> squares(20);
      for (int step = 0; step < 40; ++step) {
        if (rank == 0 && step == 4) before = test::allocations;
        all->expect(order);
        all->begin_step();
        for (const int bucket : order.forward) read(stages::Pass::forward, bucket);
        for (const int bucket : order.backward) read(stages::Pass::input_gradient, bucket);
        for (int i = 19; i >= 0; --i) {
          all->open(stages::Pass::backward, stage.adder(i));
          all->added(stage.adder(i), stages::Microbatch::last, stage.ran(0, 0));
          all->progress();
        }
        all->finish();
        all->squared_norms(squares);
        all->apply({});
        all->share_weights();
      }
      if (rank == 0) after = test::allocations;
      group->barrier(stage.stream_of(stages::Pass::backward))->wait();
    });
    BOOST_TEST(before == after, after - before << " allocations");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
