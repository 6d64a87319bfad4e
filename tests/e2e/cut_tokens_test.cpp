#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests runs whose token file is cut while they train on it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(cut_tokens_test)

namespace {

namespace fs = std::filesystem;

/// Trains two stages on a dataset, cuts one of its files, and looks at how the run ends.
void check_end(const Keys& keys, const std::string& cut) {
  const Workplace place;
  const std::string data = (place.dir / "data").string();
  BOOST_REQUIRE(troupe({"tokenize", (place.dir / "corpus.txt").string(), "-o", data}).exit_code ==
                0);
  Keys all{
      {"run.max_steps", "1000000"}, {"mesh.pp", "2"}, {"data.files", "[\"" + data + ".bin\"]"}};
  all.insert(keys.begin(), keys.end());
  TroupeProgram run({"launch", place.manifest("run", all)});
  BOOST_REQUIRE(run.read_until("step 7/"));
  fs::resize_file(data + cut, 10);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 65, done.err);
  BOOST_TEST(done.err.find(data + ".bin: cannot be read any more") != std::string::npos, done.err);
  BOOST_TEST(done.err.find("signal") == std::string::npos, done.err);
  const int last = step_numbers(place.run("run")).rbegin()->first;
  BOOST_TEST(fs::exists(place.checkpoint("run", last) + "/state.json"), done.err);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_token_file_that_is_cut_ends_a_run_saved) {
  check_end({}, ".bin");
}

BOOST_AUTO_TEST_CASE(an_index_of_documents_that_is_cut_ends_a_run_saved) {
  check_end({{"batch.documents", "\"packed\""}}, ".idx");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
