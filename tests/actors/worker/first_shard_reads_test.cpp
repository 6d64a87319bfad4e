#include <boost/test/unit_test.hpp>
#include <future>
#include <memory>
#include <tuple>
#include <vector>

#include "actors/topology/assembly.h"
#include "actors/worker/rank_executor.h"
#include "stages/corpus/token_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/given_commits.h"
#include "tests/support/run_specs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_device.h"
#include "transport/node/ucx_node.h"

// Tests a stage of two shards of which the first alone can see the corpus.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(first_shard_reads_test)

namespace {

constexpr int kShards = 2;

/// What a shard computes in two steps and an evaluation: votes and a loss, as bits.
using Numbers = std::vector<std::uint64_t>;

Numbers numbers_of(RankExecutor& executor, const EnterConfiguration& order) {
  executor.begin_configuration(order);
  Numbers numbers;
  for (int step = 1; step <= 2; ++step) {
    test::GivenCommits none;
    const Prepared vote =
        executor.run_step({.configuration = order.configuration.number, .step = step}, none);
    numbers.push_back(vote.loss_sum);
    numbers.insert(numbers.end(), vote.squared_norms.begin(), vote.squared_norms.end());
    executor.commit(
        {.configuration = order.configuration.number, .step = step, .clip_factor = 1.0});
  }
  numbers.push_back(
      executor.evaluate({.configuration = order.configuration.number, .step = 2}).loss_sum);
  return numbers;
}

/// Trains shards, each of which finds the corpus at a path of its own.
std::vector<Numbers> train(RunSpec spec, const std::vector<std::string>& paths) {
  Configuration configuration{.number = 1, .shape = first_shape(spec), .members = {}};
  std::vector<std::unique_ptr<RankExecutor>> executors;
  for (int rank = 0; rank < kShards; ++rank) {
    Member self{.id = rank, .incarnation = static_cast<std::uint64_t>(rank) + 10};
    const std::string& path = paths.at(static_cast<std::size_t>(rank));
    spec.eval.sets.at(0).tokens = path;
    spec.data.sources = {{.name = "", .tokens = path}};
    executors.push_back(std::make_unique<RankExecutor>(
        spec, self, [](auto slots) { return transport::UcxNode::create({.slots = slots}); }));
    self.address = executors.back()->address();
    configuration.members.push_back(self);
  }
  const EnterConfiguration order{.configuration = configuration,
                                 .start = {.digest = assemble(spec, configuration.shape).digest}};
  std::vector<std::future<Numbers>> shards;
  for (auto& executor : executors)
    shards.push_back(std::async(std::launch::async, [&] { return numbers_of(*executor, order); }));
  std::vector<Numbers> numbers;
  for (auto& shard : shards) numbers.push_back(shard.get());
  return numbers;
}

RunSpec spec_of_shards() {
  RunSpec spec = test::small_run();
  spec.cluster.device = test::test_device_spec();
  spec.mesh.tp = kShards;
  spec.model.vocab_size = 256;
  spec.recovery.neighbour_copies = false;
  spec.eval = {.interval = 1, .steps = 1, .sets = {{.samples = spec.batch.global}}};
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(shards_that_cannot_see_the_corpus_train_on_what_the_first_one_reads) {
  const test::TempDir dir;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + i * i % 23);
  const std::string tokens =
      stages::prepare_tokens({.files = {dir.write("text.txt", text)}}, dir / "cache");
  RunSpec spec = spec_of_shards();
  spec.dir = dir.path();
  const auto every = train(spec, {tokens, tokens});
  spec.data.first_shard_reads = true;
  const std::string nowhere = (dir / "nowhere.tokens").string();
  BOOST_TEST((train(spec, {tokens, nowhere}) == every));
  spec.data.first_shard_reads = false;
  test::expect_error(ErrorKind::data, {"nowhere.tokens"}, [&] { train(spec, {nowhere, nowhere}); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
