#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

// Any text of a manifest, an override or a resolved manifest is read, or refused with one Error.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(manifest_fuzz_test)

namespace {

const std::string kMix =
    R"(data.mix=[{files = ["/a", "/b"], weight = 0.5}, {name = "c", files = "/c", weight = 2}])";

/// Runs `read`. True if it ends without an error.
template <typename Read>
bool survives(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    BOOST_TEST(!message.empty());
    const int kind = static_cast<int>(error.kind());
    BOOST_TEST((kind == 64 || kind == 65 || kind == 78), "exit code " << kind << ": " << message);
    return false;
  }
}

/// The text with one number replaced by another.
std::string with_number_changed(const std::string& text, std::mt19937_64& random) {
  constexpr const char* kNumbers[] = {"0",    "1",     "7",   "16",
                                      "4096", "65536", "1e9", "9223372036854775807",
                                      "-1",   "0.5",   "nan", "1_0"};
  std::vector<std::size_t> places;
  for (std::size_t at = text.find("= "); at != std::string::npos; at = text.find("= ", at + 1))
    places.push_back(at + 2);
  const std::size_t begin = places[below(random, places.size())];
  const std::size_t end = text.find('\n', begin);
  return text.substr(0, begin) + kNumbers[below(random, std::size(kNumbers))] + text.substr(end);
}

}  // namespace

BOOST_AUTO_TEST_CASE(mutated_manifests) {
  std::mt19937_64 random(fresh_seed());
  int read = 0;
  for (int i = 0; i < 4000; ++i)
    read += survives([&] { checked(mutated(kSmallManifest, random)); });
  BOOST_TEST(read > 0);  // some changes mean nothing
}

BOOST_AUTO_TEST_CASE(changed_numbers) {
  std::mt19937_64 random(fresh_seed());
  const std::string all = checked(kSmallManifest, {kMix, "data.files=[]"}).to_toml();
  for (int i = 0; i < 4000; ++i) {
    std::string text = all;
    for (std::size_t changes = 1 + below(random, 3); changes > 0; --changes)
      text = with_number_changed(text, random);
    survives([&] {
      const auto spec = launch::to_run_spec(checked(text));
      BOOST_TEST(actors::make_plan(spec).num_ranks() == spec.mesh.pp);
      BOOST_TEST(stages::num_parameters(spec.model) > 0);
    });
  }
}

BOOST_AUTO_TEST_CASE(mutated_resolved_texts) {
  std::mt19937_64 random(fresh_seed());
  const std::string all = checked(kSmallManifest, {"mesh.pp=2", kMix, "data.files=[]"}).to_toml();
  for (int i = 0; i < 2000; ++i) survives([&] { launch::parse_resolved(mutated(all, random)); });
}

BOOST_AUTO_TEST_CASE(mutated_overrides) {
  std::mt19937_64 random(fresh_seed());
  for (int i = 0; i < 2000; ++i) {
    survives([&] { checked(kSmallManifest, {mutated("optimizer.betas=[0.9, 0.95]", random)}); });
    survives([&] { checked(kSmallManifest, {"data.files=[]", mutated(kMix, random)}); });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
