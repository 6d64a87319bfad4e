#include "actors/worker/step/step_losses.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <map>
#include <random>

#include "stages/stage/row_sizes.h"
#include "tensor/device/ops.h"
#include "tests/support/memory_tokens.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

// The losses of a step by source, from a loss for each row.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(step_losses_test)

namespace {

using actors::StepLosses;
using actors::StepTokens;

/// Sources whose documents have random lengths; source i has ids from 1000 * i on.
stages::DataFeed random_feed(std::mt19937_64& random, stages::FeedSpec spec, int num_sources) {
  std::vector<stages::FeedSource> sources;
  for (int i = 0; i < num_sources; ++i) {
    std::vector<std::int64_t> lengths;
    for (std::size_t d = 0, count = 2 + below(random, 6); d < count; ++d)
      lengths.push_back(2 + static_cast<std::int64_t>(below(random, 12)));
    std::int64_t total = 0;
    for (const std::int64_t length : lengths) total += length;
    if (total <= spec.seq_len) lengths.push_back(spec.seq_len);
    sources.push_back({.tokens = std::make_unique<MemoryTokens>(
                           MemoryTokens::of_lengths(lengths).with_ids_from(1000 * i)),
                       .weight = 1 + static_cast<double>(below(random, 4))});
  }
  spec.vocab_size = 1000 * num_sources;
  return {std::move(sources), spec};
}

void check(std::mt19937_64& random, stages::Documents documents) {
  const std::int64_t micro = 1 + static_cast<std::int64_t>(below(random, 3));
  const stages::FeedSpec spec{.documents = documents,
                              .seq_len = 2 + static_cast<std::int64_t>(below(random, 7)),
                              .micro = micro,
                              .global = 6 * micro,
                              .replicas = 2,
                              .shuffle = true,
                              .seed = random()};
  const int num_sources = 2 + static_cast<int>(below(random, 3));
  const stages::DataFeed feed = random_feed(random, spec, num_sources);
  const auto device = tensor::make_device({});
  const StepTokens::Source source{.feed = &feed,
                                  .documents = documents,
                                  .replica = static_cast<int>(below(random, 2)),
                                  .rows = stages::row_sizes(documents, micro * spec.seq_len, 1),
                                  .samples = micro,
                                  .num_microbatches = 3,
                                  .num_sources = num_sources};
  StepTokens tokens(source, *device);
  StepLosses losses(source, *device);
  for (std::int64_t step = 0; step < 3; ++step) {
    tokens.begin(step);
    losses.begin();
    std::map<int, actors::StepReport::SourceSum> expected;
    for (const int m : {0, 2}) {  // another rank has the loss of microbatch 1
      tokens.load(m);
      const auto targets = tokens.targets(m);
      const tensor::Tensor rows = losses.of_rows(m, std::ssize(targets));
      for (std::size_t row = 0; row < targets.size(); ++row) {
        const auto loss = static_cast<double>(below(random, 1000));  // sums are exact
        rows.as<double>()[row] = loss;
        if (targets[row] == tensor::kNoTarget) continue;
        expected[targets[row] / 1000].loss_sum += loss;
        ++expected[targets[row] / 1000].targets;
      }
    }
    const auto sums = losses.add_up(tokens).sources;
    BOOST_REQUIRE(std::ssize(sums) == num_sources);
    for (int i = 0; i < num_sources; ++i) {
      BOOST_TEST(sums[static_cast<std::size_t>(i)].loss_sum == expected[i].loss_sum);
      BOOST_TEST(sums[static_cast<std::size_t>(i)].targets == expected[i].targets);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_row_counts_for_the_source_of_its_token) {
  std::mt19937_64 random(fresh_seed());
  for (int round = 0; round < 60; ++round)
    for (const auto documents :
         {stages::Documents::joined, stages::Documents::padded, stages::Documents::packed})
      check(random, documents);
}

BOOST_AUTO_TEST_CASE(a_total_names_the_first_microbatch_that_is_not_finite) {
  const auto device = tensor::make_device({});
  const StepTokens::Source source{.rows = {.capacity = 8}, .num_microbatches = 4};
  StepTokens tokens(source, *device);
  StepLosses losses(source, *device);
  losses.begin();
  losses.set(1, 0.5);
  losses.set(3, 2);
  BOOST_TEST(losses.add_up(tokens).sum == 2.5);
  BOOST_TEST(losses.add_up(tokens).bad_microbatch == -1);
  losses.set(2, std::numeric_limits<double>::infinity());
  losses.set(3, std::numeric_limits<double>::quiet_NaN());
  BOOST_TEST(losses.add_up(tokens).bad_microbatch == 2);
  losses.begin();
  BOOST_TEST(losses.add_up(tokens).sum == 0.0);
}

BOOST_AUTO_TEST_CASE(a_rank_that_tells_nothing_apart_takes_no_memory) {
  const auto device = tensor::make_device({});
  const StepTokens::Source source{.rows = {.capacity = 8}, .num_microbatches = 2};
  StepTokens tokens(source, *device);
  StepLosses losses(source, *device);
  BOOST_TEST(!losses.of_rows(1, 8));
  BOOST_TEST(losses.add_up(tokens).sources.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
