#include "stages/storage/xxh64.h"

#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/support/mutate.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(xxh64_test)

using namespace troupe::stages;

namespace {

std::string pattern(std::size_t length) {
  std::string bytes(length, '\0');
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(i * 7);
  return bytes;
}

}  // namespace

// The expected values come from libxxhash 0.8.1.
BOOST_AUTO_TEST_CASE(sums_are_those_of_the_xxhash_library) {
  BOOST_TEST(to_hex(xxh64("")) == "ef46db3751d8e999");
  BOOST_TEST(to_hex(xxh64("a")) == "d24ec4f1a98c6e5b");
  BOOST_TEST(to_hex(xxh64("abc")) == "44bc2cf5ad770999");
  BOOST_TEST(to_hex(xxh64("Nobody inspects the spammish repetition")) == "fbcea83c8a378bf1");
  BOOST_TEST(to_hex(xxh64(pattern(37))) == "0f67f332bdd5b35b");
  BOOST_TEST(to_hex(xxh64(pattern(1000))) == "25275608a9cfc168");
}

BOOST_AUTO_TEST_CASE(any_split_into_updates_gives_the_same_sum) {
  std::mt19937_64 random(troupe::test::fresh_seed());
  for (int round = 0; round < 500; ++round) {
    const std::string text = pattern(troupe::test::below(random, 300));
    Xxh64 sum;
    for (auto rest = std::as_bytes(std::span(text)); !rest.empty();) {
      const std::size_t part = 1 + troupe::test::below(random, rest.size());
      sum.update(rest.first(part));
      rest = rest.subspan(part);
    }
    BOOST_REQUIRE(sum.digest() == xxh64(text));
  }
}

BOOST_AUTO_TEST_CASE(a_hex_sum_has_sixteen_digits) {
  BOOST_TEST(to_hex(0xab) == "00000000000000ab");
}

BOOST_AUTO_TEST_SUITE_END()
