#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/hosts/hosts_runs.h"

// Tests runs over several hosts that a user starts: by ssh, and by troupe join on each of them.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(launch_test)

BOOST_AUTO_TEST_CASE(two_stages_on_two_hosts_have_the_losses_of_one_process) {
  const Workplace place;
  Lab lab(2);
  lab.start_ssh();
  const Finished run = lab.run(
      0,
      launch_on_hosts(place, place.manifest("two", on_hosts({{"mesh.pp", "2"}})), "h0:1\nh1:1\n"));
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  BOOST_TEST((step_numbers(place.run("two")) == alone(place, "one")));
  BOOST_TEST((programs_on(lab, 0).empty() && programs_on(lab, 1).empty()));
}

BOOST_AUTO_TEST_CASE(replicas_and_shards_on_two_hosts_have_the_losses_of_one_host) {
  const Workplace place;
  Lab lab(2);
  lab.start_ssh();
  const Keys keys{{"mesh.dp", "2"}, {"mesh.tp", "2"}, {"data_parallel.sharding", "\"optim\""}};
  const Finished run = lab.run(
      0, launch_on_hosts(place, place.manifest("two", on_hosts(keys)), "h0 slots=2\nh1 slots=2\n"));
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  BOOST_TEST((step_numbers(place.run("two")) == alone(place, "one", keys)));
}

BOOST_AUTO_TEST_CASE(a_host_that_cannot_be_had_ends_the_launch_and_is_named) {
  const Workplace place;
  Lab lab(2);
  lab.start_ssh();
  const std::string manifest =
      place.manifest("run", on_hosts({{"mesh.pp", "2"}, {"cluster.wait", "8"}}));
  const auto refused = [&](const std::string& hosts, int code,
                           std::initializer_list<const char*> words) {
    const Finished run = lab.run(0, launch_on_hosts(place, manifest, hosts));
    BOOST_TEST(run.exit_code == code, hosts << run.err);
    for (const char* word : words)
      BOOST_TEST(run.err.find(word) != std::string::npos, word << " in " << run.err);
    BOOST_TEST(!std::filesystem::exists(place.run("run")));
    BOOST_TEST((programs_on(lab, 0).empty() && programs_on(lab, 1).empty()));
    return run.err;
  };
  refused("h0:1\nnosuchhost:1\n", 69, {"nosuchhost", "resolve"});
  // All that cannot be had are named with their causes, and none that can.
  const std::string err = refused("h0:1\nh1:1\nnosuchhost:1\nnorothis:1\n", 69,
                                  {"2 of 4", "nosuchhost (ssh", "norothis (ssh"});
  BOOST_TEST(err.find("h1 (") == std::string::npos, err);
  refused("h0:1\nh1:1\n10.88.0.11:1\n", 69, {"which takes part in the run already"});
  refused("h0:1\nh1:0\n", 65, {"h1"});
  refused("h0:1\nh0:1\n", 65, {"h0"});
  refused("h0:1\n", 69, {"slot"});
  lab.cut(1);
  refused("h0:1\nh1:1\n", 69, {"h1"});
}

BOOST_AUTO_TEST_CASE(hosts_come_by_themselves_with_the_secret) {
  const Workplace place;
  Lab lab(3);
  const std::string token = place.dir.write("token", "s3cret\n"),
                    wrong = place.dir.write("wrong", "other\n");
  for (const std::string& file : {token, wrong})
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  const std::vector<std::string> where{"--rendezvous", "h0:29600", "--token-file"};
  const auto words = [&](std::vector<std::string> command, const std::string& secret) {
    command.insert(command.begin(), binary_on_hosts());
    command.insert(command.end(), where.begin(), where.end());
    command.push_back(secret);
    return command;
  };
  HostProgram launcher(
      lab, 0,
      words({"launch", place.manifest("run", {{"mesh.pp", "2"}}), "--wait-for-hosts", "2"}, token));
  const Finished stranger = lab.run(2, words({"join"}, wrong));
  BOOST_TEST(stranger.exit_code == 69, stranger.err);
  HostProgram host(lab, 1, words({"join"}, token));
  const Finished run = launcher.finish();
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  BOOST_TEST(host.finish().exit_code == 0);
  BOOST_TEST((step_numbers(place.run("run")) == alone(place, "one")));
}

BOOST_AUTO_TEST_CASE(the_command_that_a_launch_prints_for_other_hosts_works) {
  const Workplace place;
  Lab lab(2);
  HostProgram launcher(lab, 0,
                       {binary_on_hosts(), "launch", place.manifest("run", {{"mesh.pp", "2"}}),
                        "--wait-for-hosts", "2"});
  BOOST_REQUIRE(launcher.read_until("--token-file "));
  const std::string shown = launcher.shown(), after = shown.substr(shown.find("troupe join ") + 7);
  std::istringstream in(after);
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  words.insert(words.begin(), binary_on_hosts());
  const std::filesystem::path token = words.back();
  BOOST_TEST((std::filesystem::status(token).permissions() ==
              (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)));
  const Finished host = lab.run(1, words);
  BOOST_TEST(host.exit_code == 0, host.err);
  const Finished run = launcher.finish();
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  BOOST_TEST(!std::filesystem::exists(token));
  BOOST_TEST((step_numbers(place.run("run")) == alone(place, "one")));
}

// At once when all that are missing have failed: the test would time out if it waited for 600 s.
BOOST_AUTO_TEST_CASE(a_run_may_begin_with_fewer_hosts_than_are_named) {
  const Workplace place;
  Lab lab(2);
  lab.start_ssh();
  const Keys keys{{"mesh.pp", "2"}, {"cluster.min_hosts", "2"}, {"cluster.wait", "600"}};
  const Finished run = lab.run(0, launch_on_hosts(place, place.manifest("two", on_hosts(keys)),
                                                  "h0:1\nnosuchhost:1\nh1:1\n"));
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  BOOST_TEST(run.out.find("begins with 2 of 3, as cluster.min_hosts = 2 allows; missing: "
                          "nosuchhost (ssh") != std::string::npos,
             run.out);
  BOOST_TEST((step_numbers(place.run("two")) == alone(place, "one")));
}

BOOST_AUTO_TEST_CASE(processes_that_have_the_variables_of_torchrun_are_the_hosts_of_one_run) {
  const Workplace place;
  Lab lab(2);
  const std::string manifest = place.manifest("two", {{"mesh.pp", "2"}});
  const auto words = [&](int rank) -> std::vector<std::string> {
    return {"env",
            "RANK=" + std::to_string(rank),
            "WORLD_SIZE=2",
            "LOCAL_RANK=0",
            "LOCAL_WORLD_SIZE=1",
            "TORCHELASTIC_RUN_ID=job7",
            binary_on_hosts(),
            "launch",
            manifest};
  };
  HostProgram second(lab, 1, words(1));
  const Finished first = lab.run(0, words(0));
  BOOST_REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  BOOST_TEST(second.finish().exit_code == 0);
  BOOST_TEST((step_numbers(place.run("two")) == alone(place, "one")));
}

BOOST_AUTO_TEST_CASE(workers_elsewhere_have_the_variables_that_are_forwarded) {
  const Workplace place;
  Lab lab(2);
  lab.start_ssh();
  const Keys keys{{"mesh.pp", "2"},
                  {"run.max_steps", "100000"},
                  {"cluster.forward_env", R"(["LAB_WORD", "LAB_UNSET"])"}};
  auto words = launch_on_hosts(place, place.manifest("run", on_hosts(keys)), "h0:1\nh1:1\n");
  words.insert(words.begin(), {"env", "LAB_WORD=of h0", "LAB_OTHER=of h0"});
  HostProgram launcher(lab, 0, words);
  BOOST_REQUIRE(launcher.read_until("step 5/"));
  const pid_t worker = worker_on(lab, 1);
  std::ifstream file("/proc/" + std::to_string(worker) + "/environ");
  std::set<std::string> variables;
  for (std::string one; std::getline(file, one, '\0');) variables.insert(one);
  BOOST_TEST(variables.contains("LAB_WORD=of h0"));
  BOOST_TEST(!variables.contains("LAB_OTHER=of h0"));
  kill(launcher.pid(), SIGKILL);
}

BOOST_AUTO_TEST_CASE(an_agent_that_is_killed_takes_its_workers_along) {
  const Workplace place;
  Lab lab(2);
  lab.start_ssh();
  HostProgram launcher(
      lab, 0,
      launch_on_hosts(
          place, place.manifest("run", on_hosts({{"mesh.pp", "2"}, {"run.max_steps", "100000"}})),
          "h0:1\nh1:1\n"));
  BOOST_REQUIRE(launcher.read_until("step 5/"));
  const pid_t worker = worker_on(lab, 1), agent = agent_on(lab, 1);
  BOOST_REQUIRE((worker > 0 && agent > 0));
  kill(agent, SIGKILL);
  while (is_alive(worker)) {
  }  // the test's timeout bounds it
  kill(launcher.pid(), SIGKILL);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
