#include <boost/test/unit_test.hpp>

#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"
#include "tests/support/seed.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(vocab_range_test)

namespace {

BOOST_AUTO_TEST_CASE(shards_hold_consecutive_ranges) {
  for (int shard = 0; shard < 4; ++shard)
    BOOST_TEST((vocab_range(8, 4, shard) == VocabRange{.first = 2 * shard, .size = 2}));
  BOOST_TEST((vocab_range(7, 1, 0) == VocabRange{.first = 0, .size = 7}));
}

BOOST_AUTO_TEST_CASE(refuses_a_vocabulary_that_is_not_divided) {
  BOOST_CHECK_EXCEPTION(vocab_range(10, 4, 0), Error, [](const Error& error) {
    return error.kind() == ErrorKind::manifest &&
           std::string(error.what()) ==
               "a vocabulary of 10 cannot be divided evenly among 4 shards; pad it to 12";
  });
}

BOOST_AUTO_TEST_CASE(padding_divides_and_its_columns_do_not_count) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 1000; ++round) {
    const auto vocabulary = std::uniform_int_distribution<std::int64_t>(1, 60000)(random);
    const int shards = std::uniform_int_distribution<int>(1, 16)(random);
    const std::int64_t padded = padded_vocab(vocabulary, shards);
    std::int64_t next = 0, valid = 0;
    bool in_order = true;
    for (int shard = 0; shard < shards; ++shard) {
      const VocabRange range = vocab_range(padded, shards, shard);
      const VocabColumns columns = columns_of(range, vocabulary);
      in_order = in_order && range.first == next && columns.first == next &&
                 (columns.valid == range.size || valid + columns.valid == vocabulary);
      next += range.size;
      valid += columns.valid;
    }
    BOOST_TEST_CONTEXT(vocabulary << " ids in " << shards << " shards") {
      BOOST_TEST(padded - vocabulary < shards);
      BOOST_TEST(in_order);
      BOOST_TEST(next == padded);
      BOOST_TEST(valid == vocabulary);
    }
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
