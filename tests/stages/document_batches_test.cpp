#include "stages/corpus/samples/document_batches.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "stages/stage/row_sizes.h"
#include "tensor/device/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_tokens.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(document_batches_test)

using namespace troupe;
using namespace troupe::stages;
using test::MemoryTokens;

namespace {

using Lengths = std::vector<std::int64_t>;

DataFeed feed_of(const Lengths& lengths, FeedSpec spec) {
  spec.vocab_size = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{1});
  return {std::make_unique<MemoryTokens>(MemoryTokens::of_lengths(lengths)), spec};
}

std::vector<Sample> samples_of(const Lengths& lengths, std::int64_t seq_len) {
  const MemoryTokens tokens = MemoryTokens::of_lengths(lengths);
  const SampleTable table(tokens, seq_len, Documents::packed);
  std::vector<Sample> samples;
  for (std::int64_t n = 0; n < table.size(); ++n) samples.push_back(table[n]);
  return samples;
}

/// Everything about one microbatch.
struct Microbatch {
  DocumentBatches::Rows size;
  std::vector<std::int32_t> ids, targets, positions, starts;
};

Microbatch microbatch(const DocumentBatches& batches, int replica, int number,
                      std::int64_t capacity) {
  Microbatch m;
  m.positions.resize(static_cast<std::size_t>(capacity));
  m.starts.resize(static_cast<std::size_t>(capacity + 1));
  m.size = batches.lay_out(replica, number, m.starts, m.positions);
  const auto rows = static_cast<std::size_t>(m.size.rows);
  BOOST_REQUIRE(m.size.rows <= capacity);
  m.positions.resize(rows);
  m.starts.resize(static_cast<std::size_t>(m.size.documents + 1));
  m.ids.resize(rows);
  m.targets.resize(rows);
  batches.read(replica, number, m.ids, m.targets);
  return m;
}

Lengths random_lengths(std::mt19937_64& random, std::size_t count, std::size_t longest) {
  Lengths lengths;
  for (std::size_t i = 0; i < count; ++i)
    lengths.push_back(static_cast<std::int64_t>(test::below(random, longest + 1)));
  lengths.push_back(2);  // at least one sample
  return lengths;
}

}  // namespace

BOOST_AUTO_TEST_CASE(documents_are_cut_so_that_each_token_but_their_first_is_a_target_once) {
  BOOST_TEST((samples_of({0, 1, 2, 4, 5, 8}, 3) ==
              std::vector<Sample>{{1, 1}, {3, 3}, {7, 3}, {10, 1}, {12, 3}, {15, 3}, {18, 1}}));
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const Lengths lengths = random_lengths(random, test::below(random, 300), 20);
    const auto seq_len = static_cast<std::int64_t>(1 + test::below(random, 9));
    std::vector<std::int64_t> targets, expected;
    for (const Sample& sample : samples_of(lengths, seq_len)) {
      BOOST_REQUIRE(sample.targets >= 1 && sample.targets <= seq_len);
      for (std::int64_t i = 1; i <= sample.targets; ++i) targets.push_back(sample.begin + i);
    }
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      for (std::int64_t i = 1; i < length; ++i) expected.push_back(begin + i);
      begin += length;
    }
    BOOST_TEST((targets == expected));
  }
}

// Checks the definition token by token: what is not masked is a target once, and nothing that is
// masked; a sample without a target is none.
BOOST_AUTO_TEST_CASE(tokens_that_are_not_masked_are_targets_once) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 300; ++round) {
    Lengths lengths = random_lengths(random, 20, 30);
    lengths.push_back(3);
    const MemoryTokens plain = MemoryTokens::of_lengths(lengths);
    const std::int64_t last = plain.num_tokens() - 3;  // of the last document two are trained
    std::vector<bool> is_masked(static_cast<std::size_t>(plain.num_tokens()));
    std::vector<TokenSpan> masked;
    const std::uint64_t longest = 1 + test::below(random, 20);
    for (std::int64_t begin = 0, end; begin < last; begin = end) {
      begin += static_cast<std::int64_t>(test::below(random, longest));
      end = std::min(last, begin + 1 + static_cast<std::int64_t>(test::below(random, longest)));
      if (begin >= end) break;
      masked.push_back({.begin = begin, .end = end});
      for (auto t = begin; t < end; ++t) is_masked[static_cast<std::size_t>(t)] = true;
    }
    const MemoryTokens tokens = plain.with_masked(masked);
    const auto seq_len = static_cast<std::int64_t>(1 + test::below(random, 8));
    std::vector<std::int32_t> expected, trained;
    for (std::int64_t d = 0; d < tokens.num_documents(); ++d)
      for (std::int64_t t = tokens.document_begin(d) + 1; t < tokens.document_begin(d + 1); ++t)
        if (!is_masked[static_cast<std::size_t>(t)])
          expected.push_back(static_cast<std::int32_t>(t));
    const FeedSpec spec{
        .documents = Documents::packed, .seq_len = seq_len, .vocab_size = tokens.num_tokens() + 1};
    const DataFeed feed(std::make_unique<MemoryTokens>(tokens), spec);
    DocumentBatches batches(feed, 1);
    for (std::int64_t n = 0; n < feed.num_samples(); ++n) {
      batches.begin(n);
      const Microbatch m = microbatch(batches, 0, 0, seq_len + 1);
      std::int64_t targets = 0;
      for (std::size_t row = 0; row < m.targets.size(); ++row) {
        if (m.targets[row] == tensor::kNoTarget) continue;
        BOOST_REQUIRE(m.targets[row] == m.ids[row] + 1);
        trained.push_back(m.targets[row]);
        ++targets;
      }
      BOOST_REQUIRE(targets > 0);
      BOOST_REQUIRE(targets == batches.num_targets());
    }
    BOOST_REQUIRE(trained == expected);
  }
}

BOOST_AUTO_TEST_CASE(a_corpus_of_prompts_alone_is_refused) {
  const MemoryTokens tokens = MemoryTokens::of_lengths({3, 1}).with_prompts({3, 0});
  test::expect_error(ErrorKind::data, {"corpus", "2 documents", "behind its prompt"}, [&] {
    DataFeed(std::make_unique<MemoryTokens>(tokens),
             FeedSpec{.documents = Documents::padded, .seq_len = 4});
  });
}

BOOST_AUTO_TEST_CASE(a_corpus_without_a_document_of_two_tokens_is_refused) {
  const FeedSpec spec{.documents = Documents::packed, .seq_len = 4};
  test::expect_error(ErrorKind::data, {"corpus", "3 documents", "at least 2"}, [&] {
    feed_of({0, 1, 1}, spec);
  });
}

BOOST_AUTO_TEST_CASE(samples_are_dealt_out_longest_first_into_the_lightest_microbatch) {
  const Lengths targets = {3, 7, 1, 5, 5, 2};
  std::vector<Sample> samples;
  for (const std::int64_t n : targets) samples.push_back({.begin = 0, .targets = n});
  SamplePartition partition(samples.size(), 2);
  partition.deal(samples);
  const auto of = [&](int m) {
    const auto numbers = partition.microbatch(m);
    return std::vector<std::int32_t>(numbers.begin(), numbers.end());
  };
  BOOST_TEST((of(0) == std::vector<std::int32_t>{1, 0, 5}));  // 7 + 3 + 2
  BOOST_TEST((of(1) == std::vector<std::int32_t>{3, 4, 2}));  // 5 + 5 + 1
}

BOOST_AUTO_TEST_CASE(a_partition_uses_each_sample_once_and_no_microbatch_exceeds_its_capacity) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 300; ++round) {
    const auto micro = 1 + test::below(random, 5), microbatches = 1 + test::below(random, 9);
    std::vector<Sample> samples(micro * microbatches);
    for (Sample& sample : samples)
      sample.targets = 1 + static_cast<std::int64_t>(test::below(random, 30));
    SamplePartition partition(samples.size(), static_cast<int>(microbatches));
    partition.deal(samples);
    const std::int64_t longest = std::ranges::max(samples, {}, &Sample::targets).targets;
    std::vector<int> used(samples.size());
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (std::size_t m = 0; m < microbatches; ++m) {
      std::int64_t tokens = 0;
      for (const std::int32_t n : partition.microbatch(static_cast<int>(m))) {
        ++used[static_cast<std::size_t>(n)];
        tokens += samples[static_cast<std::size_t>(n)].targets;
      }
      BOOST_TEST(tokens <= static_cast<std::int64_t>(micro) * longest);
      least = std::min(least, tokens);
      most = std::max(most, tokens);
    }
    BOOST_TEST((used == std::vector<int>(samples.size(), 1)));
    BOOST_TEST(most - least <= longest);
  }
}

// Each lane is as a microbatch of a replica with one lane is, and what completes it is padding.
BOOST_AUTO_TEST_CASE(packed_lanes_lie_one_after_the_other) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const int lanes = 2 + static_cast<int>(test::below(random, 2));
    const auto seq_len = static_cast<std::int64_t>(2 + test::below(random, 30));
    const auto micro = static_cast<std::int64_t>(1 + test::below(random, 3));
    FeedSpec one{.documents = Documents::packed,
                 .seq_len = seq_len,
                 .micro = micro,
                 .global = 4 * lanes * micro,
                 .replicas = 2 * lanes};
    FeedSpec several = one;
    several.replicas = 2;
    several.lanes = lanes;
    const Lengths lengths = random_lengths(random, 30, 40);
    const DataFeed narrow = feed_of(lengths, several), wide = feed_of(lengths, one);
    const auto of_one = row_sizes(Documents::packed, micro * seq_len, 1);
    const auto of_all = row_sizes(Documents::packed, lanes * micro * seq_len, 1, lanes);
    DocumentBatches together(narrow, of_all.step), alone(wide, of_one.step);
    together.begin(0);
    alone.begin(0);
    for (const int replica : {0, 1})
      for (const int number : {0, 1}) {
        const Microbatch all = microbatch(together, replica, number, of_all.capacity);
        std::size_t row = 0, document = 0;
        for (int lane = 0; lane < lanes; ++lane) {
          const Microbatch own = microbatch(alone, replica * lanes + lane, number, of_one.capacity);
          BOOST_TEST(together.rows_of_lane(replica, number, lane) == own.size.rows);
          const auto matches = [&](const auto& whole, const auto& part) {
            return std::ranges::equal(std::span(whole).subspan(row, part.size()), part);
          };
          BOOST_TEST(matches(all.ids, own.ids));
          BOOST_TEST(matches(all.targets, own.targets));
          for (std::int64_t d = 0; d < own.size.documents; ++d)
            BOOST_TEST(all.starts[document + static_cast<std::size_t>(d)] ==
                       own.starts[static_cast<std::size_t>(d)] + static_cast<std::int32_t>(row));
          row += own.ids.size();
          while (document < static_cast<std::size_t>(all.size.documents) &&
                 std::cmp_less(all.starts[document], row))
            ++document;
        }
        BOOST_TEST(all.size.rows % of_all.step == 0);
        for (std::size_t d = 0; d + 1 < all.starts.size(); ++d)
          BOOST_TEST(all.starts[d + 1] - all.starts[d] <= seq_len);
      }
  }
}

// Lanes that are alike have as many rows in each replica of any stage, of which the first are those
// of a lane alone.
BOOST_AUTO_TEST_CASE(lanes_that_are_alike_have_the_rows_of_the_longest) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const auto seq_len = static_cast<std::int64_t>(2 + test::below(random, 30));
    const auto micro = static_cast<std::int64_t>(1 + test::below(random, 3));
    const int multiple = 1 + static_cast<int>(test::below(random, 3));
    FeedSpec spec{.documents = Documents::packed,
                  .seq_len = seq_len,
                  .micro = micro,
                  .global = 8 * micro,
                  .replicas = 4};
    const Lengths lengths = random_lengths(random, 30, 40);
    const DataFeed plain = feed_of(lengths, spec);
    spec.lanes_alike = true;
    const DataFeed one = feed_of(lengths, spec);
    spec.replicas = spec.lanes = 2;
    const DataFeed two = feed_of(lengths, spec);
    const auto of_one = row_sizes(Documents::packed, micro * seq_len, multiple);
    const auto of_two = row_sizes(Documents::packed, 2 * micro * seq_len, multiple, 2);
    DocumentBatches own(plain, of_one.step), wide(one, of_one.step), narrow(two, of_two.step);
    for (DocumentBatches* const batches : {&own, &wide, &narrow}) batches->begin(0);
    for (const int number : {0, 1}) {
      std::int64_t longest = 0;
      for (int replica = 0; replica < 4; ++replica)
        longest = std::max(longest, own.rows_of_lane(replica, number, 0));
      for (int replica = 0; replica < 4; ++replica) {
        const Microbatch alone = microbatch(own, replica, number, of_one.capacity);
        const Microbatch alike = microbatch(wide, replica, number, of_one.capacity);
        const Microbatch all = microbatch(narrow, replica / 2, number, of_two.capacity);
        BOOST_TEST(alike.size.rows == longest);
        BOOST_TEST(all.size.rows == 2 * longest);
        BOOST_TEST(longest % multiple == 0);
        const auto begins_alike = [&](const auto& long_one, const auto& short_one) {
          return std::ranges::equal(std::span(long_one).first(short_one.size()), short_one);
        };
        BOOST_TEST(begins_alike(alike.ids, alone.ids));
        BOOST_TEST(begins_alike(alike.targets, alone.targets));
        const auto first = static_cast<std::size_t>(replica % 2 * longest);
        BOOST_TEST(
            std::ranges::equal(std::span(all.ids).subspan(first, alike.ids.size()), alike.ids));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(packed_samples_lie_side_by_side_and_padding_follows_them) {
  const FeedSpec spec{.documents = Documents::packed, .seq_len = 4, .micro = 3, .global = 3};
  const DataFeed feed = feed_of({3, 5, 2}, spec);  // 2, 4 and 1 targets
  DocumentBatches batches(feed, 4);
  batches.begin(0);
  BOOST_TEST(batches.num_targets() == 7);
  const Microbatch m = microbatch(batches, 0, 0, 12);
  using Ids = std::vector<std::int32_t>;
  BOOST_TEST(m.size.rows == 8);
  BOOST_TEST((m.starts == Ids{0, 4, 6, 7}));
  BOOST_TEST((m.ids == Ids{3, 4, 5, 6, 0, 1, 8, 0}));
  BOOST_TEST((m.targets == Ids{4, 5, 6, 7, 1, 2, 9, tensor::kNoTarget}));
  BOOST_TEST((m.positions == Ids{0, 1, 2, 3, 0, 1, 0, 0}));
}

BOOST_AUTO_TEST_CASE(padding_is_a_document_of_its_own_in_each_row_of_seq_len) {
  const FeedSpec spec{.documents = Documents::padded, .seq_len = 4, .micro = 3, .global = 3};
  const DataFeed feed = feed_of({3, 5, 2}, spec);
  DocumentBatches batches(feed, 4);
  batches.begin(0);
  const Microbatch m = microbatch(batches, 0, 0, 12);
  using Ids = std::vector<std::int32_t>;
  const std::int32_t none = tensor::kNoTarget;
  BOOST_TEST((m.starts == Ids{0, 2, 4, 8, 9, 12}));
  BOOST_TEST((m.ids == Ids{0, 1, 0, 0, 3, 4, 5, 6, 8, 0, 0, 0}));
  BOOST_TEST((m.targets == Ids{1, 2, none, none, 4, 5, 6, 7, 9, none, none, none}));
  BOOST_TEST((m.positions == Ids{0, 1, 0, 1, 0, 1, 2, 3, 0, 0, 1, 2}));
}

// What a step trains on is the same for any number of replicas, and for padded and packed samples.
BOOST_AUTO_TEST_CASE(a_step_has_the_targets_of_its_samples_however_they_are_divided) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const Lengths lengths = random_lengths(random, 40, 12);
    FeedSpec spec{.seq_len = static_cast<std::int64_t>(1 + test::below(random, 6)),
                  .micro = static_cast<std::int64_t>(1 + test::below(random, 3)),
                  .shuffle = test::below(random, 2) == 1,
                  .seed = random()};
    spec.global = spec.micro * 4;
    const auto step = static_cast<std::int64_t>(test::below(random, 20));
    std::map<std::pair<Documents, int>, std::vector<std::int32_t>> trained;
    for (const Documents documents : {Documents::padded, Documents::packed})
      for (const int replicas : {1, 2, 4}) {
        spec.documents = documents;
        spec.replicas = replicas;
        const DataFeed feed = feed_of(lengths, spec);
        DocumentBatches batches(feed, 2);
        batches.begin(step);
        std::vector<std::int32_t>& all = trained[{documents, replicas}];
        for (int d = 0; d < replicas; ++d)
          for (int m = 0; m < 4 / replicas; ++m) {
            const Microbatch batch = microbatch(batches, d, m, spec.micro * spec.seq_len + 1);
            for (std::size_t t = 0; t < batch.targets.size(); ++t) {
              if (batch.targets[t] == tensor::kNoTarget) continue;
              BOOST_REQUIRE(batch.targets[t] == batch.ids[t] + 1);
              all.push_back(batch.targets[t]);
            }
          }
        BOOST_TEST(batches.num_targets() == std::ssize(all));
        if (documents == Documents::padded) std::ranges::sort(all);
      }
    // The packed order is the same for any number of replicas, and so are its sums.
    BOOST_TEST((trained[{Documents::packed, 1}] == trained[{Documents::packed, 2}]));
    BOOST_TEST((trained[{Documents::packed, 1}] == trained[{Documents::packed, 4}]));
    std::ranges::sort(trained[{Documents::packed, 1}]);
    BOOST_TEST((trained[{Documents::packed, 1}] == trained[{Documents::padded, 1}]));
    BOOST_TEST((trained[{Documents::padded, 4}] == trained[{Documents::padded, 1}]));
  }
}

BOOST_AUTO_TEST_SUITE_END()
