#include <boost/test/unit_test.hpp>
#include <numeric>

#include "actors/topology/layers/layer_split.h"
#include "tensor/errors/error.h"
#include "tests/support/mutate.h"
#include "tests/support/run_specs.h"
#include "tests/support/seed.h"

// Any text of a split places every layer once, or is refused with one Error.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(layer_split_fuzz_test)

namespace {

constexpr int kLayers = 6, kChunks = 3;

/// Splits layers by the text. True if it is a split.
bool survives(const std::string& text) {
  try {
    const auto layers = actors::split_layers(actors::parse_split(text), small_run().model, kChunks);
    BOOST_TEST(std::ssize(layers) == kChunks);
    BOOST_TEST(std::accumulate(layers.begin(), layers.end(), 0) == kLayers);
    return true;
  } catch (const Error& error) {
    BOOST_TEST(static_cast<int>(error.kind()) == 64);
    BOOST_TEST(!std::string(error.what()).empty());
    return false;
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(mutated_splits) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  int splits = 0;
  for (int i = 0; i < 20000; ++i) {
    constexpr const char* kTexts[] = {"3,2,1", "Et*3|(t|)*1,ttL", "ends", "parameters",
                                      "E(tt|)*2ttL"};
    const std::string text = mutated(kTexts[below(random, std::size(kTexts))], random);
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " round " << i) splits += survives(text);
  }
  BOOST_TEST(splits > 0);
}

BOOST_AUTO_TEST_CASE(letters_in_any_order) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    constexpr std::string_view kLetters = "EttttL||()**,0129m";
    std::string text;
    for (std::size_t size = below(random, 24); size > 0; --size)
      text += kLetters[below(random, kLetters.size())];
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << text) survives(text);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
