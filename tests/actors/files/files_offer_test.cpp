#include "actors/files/files_offer.h"

#include <boost/test/unit_test.hpp>

#include "actors/files/file_looks.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(files_offer_test)

using namespace actors;

namespace {

const FilesOffer kOffer{
    .run_dir = "/runs/r",
    .marker = "/runs/marker",
    .marker_bytes = 5,
    .tokens = {{.path = "/data/d", .files = {"/data/d.bin", "/data/d.idx"}, .bytes = {10, 20}}},
    .folders = {{.path = "/models/m", .files = {"/models/m/config.json"}, .bytes = {30}}}};

using Paths = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_host_is_brought_what_it_does_not_see) {
  BOOST_TEST((question_of(kOffer).paths ==
              Paths{"/runs/marker", "/data/d.bin", "/data/d.idx", "/models/m/config.json"}));
  const FilesAway none = away_of(kOffer, {.bytes = {5, 10, 20, 30}, .late_s = {}});
  BOOST_TEST((none.run_dir.empty() && none.tokens.empty() && none.folders.empty()));
  const FilesAway tokens = away_of(kOffer, {.bytes = {5, 10, 21, 30}, .late_s = {}});
  BOOST_TEST((tokens.run_dir.empty() && tokens.tokens == Paths{"/data/d"}));
  BOOST_TEST(tokens.folders.empty());
  const FilesAway folder = away_of(kOffer, {.bytes = {5, 10, 20, -1}, .late_s = {}});
  BOOST_TEST((folder.tokens.empty() && folder.folders == Paths{"/models/m"}));
}

BOOST_AUTO_TEST_CASE(who_shares_no_directory_may_have_others_files_of_the_same_names) {
  const FilesAway away = away_of(kOffer, {.bytes = {-1, 10, 20, 30}, .late_s = {}});
  BOOST_TEST(away.run_dir == "/runs/r");
  BOOST_TEST((away.tokens == Paths{"/data/d"} && away.folders == Paths{"/models/m"}));
  const auto why = refusal_of(kOffer, away);
  BOOST_REQUIRE(why);
  BOOST_TEST(why->find("checkpoint.gather = true") != std::string::npos);
  FilesOffer gathers = kOffer;
  gathers.gathers = true;
  BOOST_TEST(!refusal_of(gathers, away));
  BOOST_TEST(!refusal_of(kOffer, FilesAway{}));
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_too_short_says_that_nothing_is_seen) {
  const FilesAway away = away_of(kOffer, {});
  BOOST_TEST((away.run_dir == "/runs/r" && away.tokens.size() == 1u && away.folders.size() == 1u));
}

BOOST_AUTO_TEST_CASE(files_are_looked_for_until_they_are_as_large_as_they_should_be) {
  const TempDir dir;
  const std::string file = dir.write("file", "12345"), missing = (dir / "missing").string();
  const FilesSeen seen = look_for_files({.paths = {file, missing}, .bytes = {5}, .patience_s = 60});
  BOOST_TEST((seen.bytes == std::vector<std::int64_t>{5, -1}));  // at once
  const FilesSeen late = look_for_files({.paths = {file}, .bytes = {6}, .patience_s = 0.05});
  BOOST_TEST((late.bytes == std::vector<std::int64_t>{5}));
  BOOST_TEST(late.late_s.at(0) >= 0.05);
  std::stop_source stop;
  stop.request_stop();
  look_for_files({.paths = {file}, .bytes = {6}, .patience_s = 1e6}, stop.get_token());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
