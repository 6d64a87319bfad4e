#include <boost/test/unit_test.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/topology/assembly.h"
#include "actors/worker/rank_executor.h"
#include "stages/corpus/token_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/given_commits.h"
#include "tests/support/run_specs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_device.h"
#include "tests/support/thread_cluster.h"
#include "transport/node/ucx_node.h"

// Tests ranks that update their weights before a step is committed, against ranks that do not.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(updates_ahead_test)

namespace {

/// The votes of all ranks on a step, as bits.
using Votes = std::vector<std::vector<std::uint64_t>>;

/// The ranks of a run, without a director.
class Ranks {
 public:
  explicit Ranks(RunSpec spec) : commits_(static_cast<std::size_t>(spec.num_ranks())) {
    spec.dir = dir_.path();
    spec.cluster.device = test::test_device_spec();
    spec.model.vocab_size = 256;
    spec.max_steps = spec.optimizer.max_steps = 10;
    const std::string text = dir_.write("text.txt", std::string(1000, 'x') + std::string(999, 'y'));
    spec.data.sources = {
        {.name = "", .tokens = stages::prepare_tokens({.files = {text}}, dir_ / "cache")}};
    spec_ = spec;
    configuration_ = {.number = 1, .shape = first_shape(spec), .members = {}};
    for (int rank = 0; rank < spec.num_ranks(); ++rank) {
      Member self{.id = rank, .incarnation = static_cast<std::uint64_t>(rank) + 10};
      executors_.push_back(std::make_unique<RankExecutor>(
          spec, self, [](auto slots) { return transport::UcxNode::create({.slots = slots}); }));
      self.address = executors_.back()->address();
      configuration_.members.push_back(self);
    }
    begin({});
  }

  /// Trains a step whose votes come back. The step before is committed with this factor: first, or
  /// while the ranks run ahead of that.
  Votes step(std::int64_t step, double factor_before) {
    if (step > 1)
      for (int rank = 0; rank < size(); ++rank) {
        const Commit commit{
            .configuration = configuration_.number, .step = step - 1, .clip_factor = factor_before};
        if (spec_.validation == RunSpec::Validation::post)
          commits(rank).give(commit);
        else
          executor(rank).commit(commit);
      }
    return run(step);
  }
  /// Trains a step without any commit.
  Votes run(std::int64_t step) {
    Votes votes(static_cast<std::size_t>(size()));
    test::on_ranks(size(), [&](int rank) {
      const Prepared vote = executor(rank).run_step(
          {.configuration = configuration_.number, .step = step}, commits(rank));
      auto& bits = votes[static_cast<std::size_t>(rank)];
      bits.push_back(std::bit_cast<std::uint64_t>(vote.loss_sum));
      for (const double norm : vote.squared_norms)
        bits.push_back(std::bit_cast<std::uint64_t>(norm));
    });
    return votes;
  }
  void learn(std::int64_t step, double factor) {
    for (const auto& executor : executors_)
      executor->learn(
          {.configuration = configuration_.number, .step = step, .clip_factor = factor});
  }
  /// Halts all ranks, and goes on with the state that they have in the next configuration. Returns
  /// its step.
  std::int64_t regroup(std::int64_t committed) {
    std::map<std::uint64_t, StateInventory> held;
    const Configuration kept = configuration_;
    ++configuration_.number;
    for (int rank = 0; rank < size(); ++rank) {
      const Halted halted = executor(rank).halt(
          {.configuration = configuration_.number, .kept = kept.number, .reason = "a test"});
      held[halted.incarnation] = halted.inventory;
    }
    const auto state = plan_state(spec_, kept, configuration_, held, committed);
    BOOST_REQUIRE(state.has_value());
    begin(*state);
    return state->step;
  }
  int size() const { return static_cast<int>(executors_.size()); }
  test::GivenCommits& commits(int rank) { return commits_.at(static_cast<std::size_t>(rank)); }

 private:
  RankExecutor& executor(int rank) { return *executors_.at(static_cast<std::size_t>(rank)); }
  void begin(const StatePlan& state) {
    const auto digest = assemble(spec_, configuration_.shape).digest;
    test::on_ranks(size(), [&](int rank) {
      executor(rank).begin_configuration(
          {.configuration = configuration_, .start = {.state = state, .digest = digest}});
    });
  }

  test::TempDir dir_;
  RunSpec spec_;
  std::vector<test::GivenCommits> commits_;
  std::vector<std::unique_ptr<RankExecutor>> executors_;
  Configuration configuration_;
};

RunSpec run_of(int pp, int dp, RunSpec::Validation validation) {
  RunSpec spec = test::small_run(pp, dp);
  spec.schedule.kind = "zb-h2";
  spec.validation = validation;
  return spec;
}

/// What the steps are committed with.
constexpr double kFactors[] = {1, 0.5, 1, 1, 0.25, 0.125};

std::vector<Votes> train(const RunSpec& spec) {
  Ranks ranks(spec);
  std::vector<Votes> votes;
  for (std::int64_t step = 1; step <= std::ssize(kFactors) + 1; ++step)
    votes.push_back(ranks.step(step, step > 1 ? kFactors[step - 2] : 0));
  return votes;
}

void compare(const std::string& what, const std::function<void(RunSpec&)>& set, int dp = 1) {
  RunSpec barrier = run_of(2, dp, RunSpec::Validation::barrier);
  RunSpec post = run_of(2, dp, RunSpec::Validation::post);
  set(barrier);
  set(post);
  const auto expected = train(barrier);
  const auto got = train(post);
  for (std::size_t step = 0; step < expected.size(); ++step)
    BOOST_TEST((got[step] == expected[step]), what << ", step " << step + 1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(updates_ahead_of_commits_have_the_bits_of_updates_after_them) {
  compare("two stages", [](RunSpec&) {});
  compare("v-shape", [](RunSpec& spec) { spec.schedule = {.kind = "zb-v", .chunks = 2}; });
  compare("interleaved",
          [](RunSpec& spec) { spec.schedule = {.kind = "interleaved", .chunks = 3}; });
  compare("two copies", [](RunSpec& spec) { spec.schedule = {.kind = "dualpipe", .chunks = 2}; });
}

BOOST_AUTO_TEST_CASE(with_every_division_of_state_too) {
  using stages::StateDivision;
  for (const auto division : {StateDivision::none, StateDivision::optim, StateDivision::optim_grads,
                              StateDivision::optim_grads_params})
    compare(
        "division " + std::to_string(static_cast<int>(division)),
        [&](RunSpec& spec) { spec.data_parallel.division = division; }, 2);
}

BOOST_AUTO_TEST_CASE(with_shards_too) {
  compare("two shards", [](RunSpec& spec) {
    spec.mesh.tp = 2;
    spec.model.num_key_value_heads = 2;
  });
}

BOOST_AUTO_TEST_CASE(a_configuration_that_ends_before_a_commit_goes_back_to_what_is_committed) {
  const auto trained = [](RunSpec::Validation validation) {
    return Ranks(run_of(2, 1, validation));
  };
  // Step 2 is committed with 0.5, and step 3 follows.
  Ranks barrier = trained(RunSpec::Validation::barrier);
  barrier.step(1, 0);
  const Votes second = barrier.step(2, 1);
  const Votes third = barrier.step(3, 0.5);
  for (const bool is_heard : {false, true}) {
    Ranks post = trained(RunSpec::Validation::post);
    post.step(1, 0);
    post.step(2, 1);
    test::expect_error(ErrorKind::unavailable, {"step 2 was not committed"}, [&] { post.run(3); });
    if (is_heard) post.learn(2, 0.5);
    BOOST_TEST(post.regroup(is_heard ? 2 : 1) == (is_heard ? 2 : 1));
    BOOST_TEST((post.run(is_heard ? 3 : 2) == (is_heard ? third : second)));
  }
}

BOOST_AUTO_TEST_CASE(ranks_tell_once_of_each_copy_that_they_hold) {
  Ranks ranks(run_of(2, 1, RunSpec::Validation::post));
  for (std::int64_t step = 1; step <= 3; ++step) ranks.step(step, 1);
  for (int rank = 0; rank < ranks.size(); ++rank)
    BOOST_TEST(ranks.commits(rank).copied() == std::vector<std::int64_t>({0, 1, 2}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
