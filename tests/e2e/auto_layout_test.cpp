#include <boost/test/unit_test.hpp>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// schedule.auto_layout with real processes: it moves layers, and changes no number.

namespace troupe::test {
namespace {

/// The head takes as long as many layers: fewer of them on its stage are faster.
const Keys kHeavyHead{{"model.vocab_size", "4096"}, {"run.max_steps", "24"}};

Keys automatic(Keys keys) {
  keys.insert(kHeavyHead.begin(), kHeavyHead.end());
  keys["mesh.pp"] = "2";
  keys["schedule.auto_layout"] = "true";
  keys["schedule.auto_layout_gain"] = "0.0";
  keys["schedule.auto_layout_steps"] = "10";
  return keys;
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_leave_the_stage_of_a_heavy_head_and_no_loss_changes) {
  const Workplace place;
  const Finished plain = troupe({"launch", place.manifest("plain", kHeavyHead)});
  BOOST_REQUIRE_MESSAGE(plain.exit_code == 0, plain.err);
  const auto want = step_numbers(place.run("plain"));
  const std::string own =
      "\"\"\"0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B0,0B1,0B2,0B3,0B4,0B5,0B6,0B7\n"
      "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,1F4,1B4,1F5,1B5,1F6,1B6,1F7,1B7\n\"\"\"";
  int number = 0;
  for (const Keys& keys :
       {Keys{}, Keys{{"schedule.kind", "\"zb-h1\""}}, Keys{{"schedule.kind", "\"interleaved\""}},
        Keys{{"schedule.kind", "\"csv\""}, {"schedule.csv", own}},
        Keys{{"schedule.kind", "\"auto\""}}}) {
    const std::string name = "run" + std::to_string(number++);
    const Finished done = troupe({"launch", place.manifest(name, automatic(keys))});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    BOOST_TEST((step_numbers(place.run(name)) == want), name);
    BOOST_TEST(done.out.find("auto_layout: steps ") != std::string::npos, done.out);
    if (!keys.empty()) continue;
    BOOST_TEST(done.out.find("layers 3,3 become ") != std::string::npos, done.out);
    BOOST_TEST(done.out.find("measured gain") != std::string::npos, done.out);
    // A run that is resumed keeps what was chosen, unless the clock said that it is slower.
    const std::string manifest = content_of(place.run(name) + "/manifest.toml");
    if (done.out.find("goes back to 3,3") == std::string::npos)
      BOOST_TEST(manifest.find("layout = \"\"") == std::string::npos, manifest);
  }
}

}  // namespace troupe::test
