#include "stages/corpus/tokenizers/models/bpe_merger.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <string>

#include "tests/stages/tokenizers/random_bpe.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(bpe_merger_test)

using namespace troupe;
using namespace troupe::stages;
using test::below;

namespace {

using Ids = std::vector<std::int32_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(the_pair_of_the_lowest_rank_is_merged_first_and_the_leftmost_of_these) {
  MergeTable table;
  table.add(2, 3, {.rank = 0, .id = 10});
  table.add(1, 2, {.rank = 1, .id = 11});
  table.add(11, 10, {.rank = 2, .id = 12});
  table.add(4, 4, {.rank = 3, .id = 13});
  BpeMerger merger;
  const auto merged = [&](Ids ids) {
    merger.merge(ids, table);
    return ids;
  };
  BOOST_TEST(merged({1, 2, 3}) == (Ids{1, 10}));
  BOOST_TEST(merged({1, 2, 2, 3}) == Ids{12});
  BOOST_TEST(merged({4, 4, 4, 4, 4}) == (Ids{13, 13, 4}));
  BOOST_TEST(merged({}).empty());
  BOOST_TEST(merged({7}) == Ids{7});
}

BOOST_AUTO_TEST_CASE(random_merges_give_what_a_plain_search_for_the_lowest_rank_gives) {
  std::mt19937_64 random(test::fresh_seed());
  BpeMerger merger;
  for (int round = 0; round < 500; ++round) {
    const test::RandomBpe bpe(random);
    MergeTable table;
    std::int32_t rank = 0;
    for (const auto& [left, right, result] : bpe.model.merges)
      table.add(left, right, {.rank = rank++, .id = result});
    Ids ids(below(random, 60));
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(below(random, bpe.num_letters));
    const Ids expected = test::plain_merge(ids, bpe.model.merges);
    merger.merge(ids, table);
    BOOST_REQUIRE(ids == expected);
  }
}

BOOST_AUTO_TEST_CASE(twice_the_text_is_twice_the_work) {
  // Tokens of 1, 2, 4 ... 2^15 equal letters, so that one text is one part in which every pair can
  // be merged.
  MergeTable table;
  for (std::int32_t id = 0; id < 15; ++id) table.add(id, id, {.rank = id, .id = id + 1});
  const auto candidates = [&table](std::size_t letters) {
    BpeMerger merger;
    Ids ids(letters, 0);
    merger.merge(ids, table);
    BOOST_TEST(ids.size() == letters >> 15);
    return merger.num_candidates();
  };
  const std::int64_t once = candidates(std::size_t{1} << 19),
                     twice = candidates(std::size_t{1} << 20);
  BOOST_TEST(once <= 4 * (std::int64_t{1} << 19));
  BOOST_TEST(twice <= 2 * once + 100);
}

BOOST_AUTO_TEST_SUITE_END()
