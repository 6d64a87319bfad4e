#include "actors/worker/rank_executor.h"

#include <boost/test/unit_test.hpp>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "actors/topology/assembly.h"
#include "stages/corpus/token_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/given_commits.h"
#include "tests/support/run_specs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_device.h"
#include "transport/node/ucx_node.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(rank_executor_test)

namespace {

constexpr int kReplicas = 2;

/// The trainers of two replicas of one stage, both ready for the first step.
class Replicas {
 public:
  Replicas() {
    RunSpec spec = test::small_run(1, kReplicas);
    spec.dir = dir_.path();
    spec.cluster.device = test::test_device_spec();
    spec.cluster.edges = transport::EdgeChoice::staged;  // peer slots need no memory of the host
    spec.model.vocab_size = 256;
    const std::string text = dir_.write("text.txt", std::string(2000, 'x'));
    spec.data.sources = {
        {.name = "", .tokens = stages::prepare_tokens({.files = {text}}, dir_ / "cache")}};
    Configuration configuration{.number = 1, .shape = first_shape(spec), .members = {}};
    for (int rank = 0; rank < kReplicas; ++rank) {
      Member self{.id = rank, .incarnation = static_cast<std::uint64_t>(rank) + 10};
      trainers_.push_back(std::make_unique<RankExecutor>(spec, self, [this](auto slots) {
        pools_.push_back(slots);
        return transport::UcxNode::create({.slots = slots});
      }));
      self.address = trainers_.back()->address();
      configuration.members.push_back(self);
    }
    const Assembly assembly = assemble(spec, configuration.shape);
    const auto begin = [&](int rank) {
      trainer(rank).begin_configuration(
          {.configuration = configuration, .start = {.digest = assembly.digest}});
    };
    auto other = std::async(std::launch::async, begin, 1);
    begin(0);  // at the same time, because replicas compare their weights
    other.get();
    configuration_ = configuration.number;
    spec_ = spec;
  }
  RankExecutor& trainer(int rank) { return *trainers_.at(static_cast<std::size_t>(rank)); }
  Prepared run_step(int rank, std::int64_t step = 1) {
    test::GivenCommits none;
    return trainer(rank).run_step({.configuration = configuration_, .step = step}, none);
  }
  void train(std::int64_t step) {
    auto other = std::async(std::launch::async, [&] { run_step(1, step); });
    run_step(0, step);
    other.get();
    for (const auto& trainer : trainers_)
      trainer->commit({.configuration = configuration_, .step = step});
  }
  const RunSpec& spec() const { return spec_; }
  transport::SlotPool& pool(int rank) { return *pools_.at(static_cast<std::size_t>(rank)); }

 private:
  test::TempDir dir_;
  RunSpec spec_;
  std::vector<std::shared_ptr<transport::SlotPool>> pools_;
  std::vector<std::unique_ptr<RankExecutor>> trainers_;
  std::uint32_t configuration_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(connections_are_made_anew_after_a_death_alone) {
  Replicas replicas;
  RankExecutor& trainer = replicas.trainer(0);
  const std::string before = trainer.address();
  const Halt planned{.configuration = 2, .kept = 1, .reconnect = false, .reason = "dp=1"};
  BOOST_TEST((trainer.halt(planned).address == before));
  const Halt death{.configuration = 3, .kept = 1, .reconnect = true, .reason = "rank 1 ended"};
  const std::string answered = trainer.halt(death).address;
  BOOST_TEST((answered != before));
  BOOST_TEST((trainer.address() == answered));
}

BOOST_AUTO_TEST_CASE(a_change_finds_the_memory_of_its_messages_prepared) {
  Replicas replicas;
  replicas.train(1);
  ClusterShape longer = first_shape(test::small_run(2, kReplicas));
  const auto part =
      part_of_run(assemble(replicas.spec(), longer), replicas.spec(), longer, /*rank=*/0);
  std::promise<void> is_warm;
  replicas.trainer(0).warm_up({.order = 1, .rank = 0, .shape = longer},
                              [&] { is_warm.set_value(); });
  is_warm.get_future().get();
  replicas.train(2);  // the steps until the change do not take the memory away
  const auto sizes = slots_of(part, 0, *test::make_test_device(), replicas.spec().cluster.edges);
  BOOST_TEST_REQUIRE(!sizes.empty());
  for (const std::size_t bytes : sizes)  // fresh memory would be exactly as large as asked for
    BOOST_TEST(replicas.pool(0).take(bytes - 1, true)->bytes() >= bytes);
}

BOOST_AUTO_TEST_CASE(a_rank_names_the_collective_it_waits_in_and_who_is_missing) {
  Replicas replicas;
  RankExecutor& trainer = replicas.trainer(0);
  BOOST_TEST(trainer.activity().state == "ready");
  BOOST_TEST(trainer.activity().waiting_for == "");
  auto step = std::async(std::launch::async, [&] { replicas.run_step(0); });
  while (trainer.activity().waiting_for.empty() &&
         step.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    std::this_thread::yield();
  BOOST_TEST(trainer.activity().state == "waiting");
  BOOST_TEST(trainer.activity().waiting_for ==
             "all-reduce 1 of group \"replicas of stage 0\", missing rank 1");
  replicas.run_step(1);
  step.get();
  BOOST_TEST(trainer.activity().waiting_for == "");
}

BOOST_AUTO_TEST_CASE(an_interrupt_ends_a_collective_with_its_reason) {
  Replicas replicas;
  RankExecutor& trainer = replicas.trainer(0);
  auto step = std::async(std::launch::async, [&] { replicas.run_step(0); });
  while (trainer.activity().waiting_for.empty() &&
         step.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    std::this_thread::yield();
  trainer.interrupt(2, "rank 1 was killed");
  test::expect_error(ErrorKind::unavailable, {"replicas of stage 0", "rank 1 was killed"},
                     [&] { step.get(); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
