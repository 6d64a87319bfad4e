#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "tests/hosts/long_run.h"

// Tests that a run on several hosts is resumed where it was, by its directory alone.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(resume_test)

namespace {

std::vector<std::string> resume(const std::string& run, const std::vector<std::string>& more) {
  std::vector<std::string> words{binary_on_hosts(), "launch", "--resume", run};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_resume_has_the_hosts_of_the_hostfile_and_the_shape_that_was_ordered) {
  LongRun run({{"mesh.pp", "4"}}, "h0:2\nh1:2\n", 2);
  run.scale({"--without-host", "h1"});
  BOOST_TEST(run.num_ranks(0) == 2u);
  run.stop(*run.program);
  std::filesystem::remove(run.place.dir / "hosts");
  HostProgram again(run.lab, 0, resume(run.dir(), {}));
  BOOST_REQUIRE(again.read_until("resuming"));
  read_new_steps(again, run.dir(), 1);
  BOOST_TEST(run.num_ranks(1) == 4u);
  BOOST_TEST(worker_on(run.lab, 1) > 0);
  run.stop(again);
  const int last = step_numbers(run.dir()).rbegin()->first;
  const Finished alone =
      run.lab.run(0, resume(run.dir(), {"--set", "cluster.hosts=[]", "--set",
                                        "run.max_steps=" + std::to_string(last + 2)}));
  BOOST_TEST(alone.exit_code == 0, alone.err);
  BOOST_TEST(alone.out.find("the last launch was on h0, h1") != std::string::npos, alone.out);
  run.compare();
}

BOOST_AUTO_TEST_CASE(a_resume_of_a_run_whose_hosts_came_by_themselves_asks_how_many_are_to_come) {
  const Workplace place;
  Lab lab(1);
  const std::string token = place.dir.write("token", "s3cret\n");
  std::filesystem::permissions(token, std::filesystem::perms::owner_read);
  const Finished run =
      lab.run(0, {binary_on_hosts(), "launch", place.manifest("run", {{"run.max_steps", "2"}}),
                  "--wait-for-hosts", "1", "--token-file", token});
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::vector<std::string> longer{"--set", "run.max_steps=4"};
  const Finished refused = lab.run(0, resume(place.run("run"), longer));
  BOOST_TEST(refused.exit_code == 64, refused.err);
  BOOST_TEST(refused.err.find("--wait-for-hosts") != std::string::npos, refused.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
