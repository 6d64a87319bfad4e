#include "stages/corpus/samples/data_feed.h"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "stages/corpus/samples/shuffle.h"
#include "tensor/device/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_tokens.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(data_feed_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;
using test::MemoryTokens;

namespace {

/// A feed of the tokens 0, 1, 2, ..., so that a sample shows where it comes from.
DataFeed counting_feed(std::int64_t num_tokens, FeedSpec spec) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(num_tokens));
  std::iota(ids.begin(), ids.end(), 0);
  spec.vocab_size = num_tokens;
  return DataFeed(std::make_unique<MemoryTokens>(std::move(ids)), spec);
}

struct Batch {
  std::vector<std::int32_t> ids, targets;
};

Batch microbatch(const DataFeed& feed, const FeedSpec& spec, std::int64_t step, int replica,
                 int number) {
  const auto size = static_cast<std::size_t>(spec.micro * spec.seq_len);
  Batch batch{std::vector<std::int32_t>(size), std::vector<std::int32_t>(size)};
  feed.microbatch(step, replica, number, batch.ids, batch.targets);
  return batch;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_sample_is_seq_len_tokens_and_its_targets_are_one_further) {
  const FeedSpec spec{.seq_len = 3, .micro = 2, .global = 4};
  const DataFeed feed = counting_feed(13, spec);
  BOOST_TEST(feed.num_samples() == 4);
  const Batch batch = microbatch(feed, spec, 0, 0, 1);  // samples 2 and 3
  BOOST_TEST((batch.ids == std::vector<std::int32_t>{6, 7, 8, 9, 10, 11}));
  BOOST_TEST((batch.targets == std::vector<std::int32_t>{7, 8, 9, 10, 11, 12}));
}

BOOST_AUTO_TEST_CASE(read_once_a_sample_is_followed_by_rows_without_targets) {
  const FeedSpec spec{.seq_len = 3, .micro = 2, .global = 2, .once = true};
  const DataFeed feed = counting_feed(10, spec);
  const Batch batch = microbatch(feed, spec, 1, 0, 0);  // sample 2, and none
  const std::int32_t none = tensor::kNoTarget;
  BOOST_TEST((batch.targets == std::vector<std::int32_t>{7, 8, 9, none, none, none}));
  BOOST_TEST(feed.sample(1, 1).trained() == 0);
}

BOOST_AUTO_TEST_CASE(an_origin_moves_all_samples) {
  FeedSpec spec{.seq_len = 3, .micro = 2, .global = 2, .origin = -4};
  const DataFeed feed = counting_feed(13, spec);
  const Batch batch = microbatch(feed, spec, 3, 0, 0);  // samples 3 * 2 - 4 = 2 and 3
  BOOST_TEST((batch.ids == std::vector<std::int32_t>{6, 7, 8, 9, 10, 11}));
}

BOOST_AUTO_TEST_CASE(the_last_target_bounds_the_number_of_samples) {
  const FeedSpec spec{.seq_len = 4};
  for (const auto& [tokens, samples] : {std::pair{5, 1}, {8, 1}, {9, 2}, {12, 2}, {13, 3}})
    BOOST_TEST(counting_feed(tokens, spec).num_samples() == samples);
  for (const int tokens : {0, 1, 4})
    expect_error(ErrorKind::data, {"corpus", std::to_string(tokens) + " tokens", "need 5"},
                 [&] { counting_feed(tokens, spec); });
}

// Checks the definition in its plain form: sample k*G + d*(G/D) + j*micro + i, modulo N.
BOOST_AUTO_TEST_CASE(every_microbatch_holds_the_samples_of_the_definition) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 200; ++round) {
    FeedSpec spec{.seq_len = 1 + static_cast<std::int64_t>(test::below(random, 5)),
                  .micro = 1 + static_cast<std::int64_t>(test::below(random, 3)),
                  .replicas = 1 + static_cast<int>(test::below(random, 3)),
                  .shuffle = test::below(random, 2) == 1,
                  .seed = random()};
    const auto num_micro = static_cast<int>(1 + test::below(random, 3));
    spec.global = spec.micro * spec.replicas * num_micro;
    const auto num_tokens = spec.seq_len + 1 + static_cast<std::int64_t>(test::below(random, 100));
    const DataFeed feed = counting_feed(num_tokens, spec);
    const std::int64_t num_samples = (num_tokens - 1) / spec.seq_len;
    const auto step = static_cast<std::int64_t>(test::below(random, 50));
    for (int d = 0; d < spec.replicas; ++d)
      for (int j = 0; j < num_micro; ++j) {
        const Batch batch = microbatch(feed, spec, step, d, j);
        for (std::int64_t i = 0; i < spec.micro; ++i) {
          const std::int64_t n =
              step * spec.global + d * (spec.global / spec.replicas) + j * spec.micro + i;
          std::int64_t place = n % num_samples;
          if (spec.shuffle) place = shuffled(spec.seed, n / num_samples, num_samples, place);
          for (std::int64_t t = 0; t < spec.seq_len; ++t) {
            const auto at = static_cast<std::size_t>(i * spec.seq_len + t);
            BOOST_REQUIRE(batch.ids[at] == place * spec.seq_len + t);
            BOOST_REQUIRE(batch.targets[at] == place * spec.seq_len + t + 1);
          }
        }
      }
  }
}

BOOST_AUTO_TEST_CASE(the_samples_of_a_step_do_not_depend_on_replicas_and_micro) {
  const auto samples_of = [](std::int64_t micro, int replicas) {
    const FeedSpec spec{.seq_len = 2,
                        .micro = micro,
                        .global = 12,
                        .replicas = replicas,
                        .shuffle = true,
                        .seed = 5};
    const DataFeed feed = counting_feed(50, spec);
    std::vector<std::int32_t> ids;
    for (int d = 0; d < replicas; ++d)
      for (int j = 0; j < 12 / replicas / micro; ++j)
        for (const std::int32_t id : microbatch(feed, spec, 7, d, j).ids) ids.push_back(id);
    return ids;
  };
  const std::vector<std::int32_t> expected = samples_of(1, 1);
  BOOST_TEST((samples_of(4, 3) == expected));
  BOOST_TEST((samples_of(2, 2) == expected));
  BOOST_TEST((samples_of(12, 1) == expected));
}

BOOST_AUTO_TEST_CASE(a_shuffled_epoch_uses_each_sample_once_and_the_next_in_another_order) {
  const FeedSpec spec{.seq_len = 1, .micro = 20, .global = 20, .shuffle = true, .seed = 9};
  const DataFeed feed = counting_feed(21, spec);
  std::vector<std::int32_t> first = microbatch(feed, spec, 0, 0, 0).ids;
  std::vector<std::int32_t> second = microbatch(feed, spec, 1, 0, 0).ids;
  BOOST_TEST((first != second));
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  for (std::int32_t i = 0; i < 20; ++i) BOOST_TEST(first[static_cast<std::size_t>(i)] == i);
  BOOST_TEST((first == second));
}

// Checks the definition in its plain form: position p is what the mixture draws, and each source is
// walked through by itself, epoch after epoch.
BOOST_AUTO_TEST_CASE(every_sample_of_a_mixture_is_the_one_of_the_definition) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const bool joined = test::below(random, 2) == 0;
    FeedSpec spec{.documents = joined ? Documents::joined : Documents::packed,
                  .seq_len = 1 + static_cast<std::int64_t>(test::below(random, 5)),
                  .global = 1 + static_cast<std::int64_t>(test::below(random, 4)),
                  .shuffle = test::below(random, 2) == 1,
                  .seed = random()};
    std::vector<FeedSource> sources;
    std::vector<std::int64_t> sizes;
    std::vector<double> weights;
    for (std::uint64_t i = 0, count = 1 + test::below(random, 4); i < count; ++i) {
      const std::int64_t length =
          spec.seq_len + 1 + static_cast<std::int64_t>(test::below(random, 60));
      sources.push_back(
          {.tokens = std::make_unique<MemoryTokens>(MemoryTokens::of_lengths({length})),
           .weight = 1 + static_cast<double>(test::below(random, 9))});
      sizes.push_back(joined ? (length - 1) / spec.seq_len
                             : (length - 1 + spec.seq_len - 1) / spec.seq_len);
      weights.push_back(sources.back().weight);
    }
    const Mixture mixture(weights);
    const DataFeed feed(std::move(sources), spec);
    BOOST_TEST(feed.num_samples() == std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    for (std::int64_t p = 0; p < 50 * spec.global; ++p) {
      const auto [source, number] = mixture[p];
      const std::int64_t size = sizes[static_cast<std::size_t>(source)];
      std::int64_t place = number % size;
      if (spec.shuffle)
        place =
            shuffled(spec.seed + static_cast<std::uint64_t>(source), number / size, size, place);
      const Sample sample = feed.sample(p / spec.global, p % spec.global);
      BOOST_REQUIRE(sample.source == source);
      BOOST_REQUIRE(sample.begin == place * spec.seq_len);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_samples_of_a_mixture_are_read_from_their_sources) {
  std::vector<FeedSource> sources;
  sources.push_back({.tokens = std::make_unique<MemoryTokens>(std::vector{1, 2, 3})});
  sources.push_back({.tokens = std::make_unique<MemoryTokens>(std::vector{7, 8, 9, 99})});
  const FeedSpec spec{.seq_len = 2, .micro = 4, .global = 4, .vocab_size = 10};
  const DataFeed feed(std::move(sources), spec);
  const Batch batch = microbatch(feed, spec, 0, 0, 0);
  BOOST_TEST((batch.ids == std::vector<std::int32_t>{1, 2, 7, 8, 1, 2, 7, 8}));
  BOOST_TEST((batch.targets == std::vector<std::int32_t>{2, 3, 8, 9, 2, 3, 8, 9}));
}

BOOST_AUTO_TEST_CASE(a_source_too_short_for_a_sample_is_refused) {
  std::vector<FeedSource> sources;
  sources.push_back({.tokens = std::make_unique<MemoryTokens>(std::vector{1, 2, 3})});
  sources.push_back({.tokens = std::make_unique<MemoryTokens>(std::vector{7, 8})});
  expect_error(ErrorKind::data, {"corpus", "2 tokens", "need 3"},
               [&] { DataFeed(std::move(sources), FeedSpec{.seq_len = 2}); });
}

BOOST_AUTO_TEST_CASE(an_id_beyond_the_vocabulary_is_refused_with_its_place) {
  const FeedSpec spec{.seq_len = 2, .micro = 1, .global = 2, .vocab_size = 10};
  const auto feed_of = [&](std::vector<std::int32_t> ids) {
    return DataFeed(std::make_unique<MemoryTokens>(std::move(ids)), spec);
  };
  const auto words = [](const char* token, const char* id) {
    return std::vector<std::string>{"corpus", token, id, "vocab_size 10"};
  };
  expect_error(ErrorKind::data, words("token 3 ", "id 10"), [&] {
    microbatch(feed_of({0, 9, 0, 10, 0}), spec, 0, 0, 1);
  });
  expect_error(ErrorKind::data, words("token 2 ", "id -1"), [&] {
    microbatch(feed_of({0, 9, -1, 0, 0}), spec, 0, 0, 0);
  });  // a target only
  BOOST_CHECK_NO_THROW(microbatch(feed_of({0, 9, 0, 10, 0}), spec, 0, 0, 0));
}

BOOST_AUTO_TEST_SUITE_END()
