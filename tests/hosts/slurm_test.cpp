#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>

#include "tests/hosts/hosts_runs.h"

// Runs the script of launch/examples/slurm by a real Slurm, where there is one, mostly with a
// program in place of troupe that tells how it is called.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(slurm_test)

namespace {

namespace fs = std::filesystem;

const std::string kScript = TROUPE_SOURCE_FOLDER "/launch/examples/slurm/train.sbatch";

/// CTest counts a test that prints this line as skipped.
boost::test_tools::assertion_result has_slurm(boost::unit_test::test_unit_id) {
  const std::string lacks = Lab::lacks_slurm();
  if (!lacks.empty()) std::fputs(("\n" + lacks).c_str(), stdout);
  return lacks.empty();
}

/// Slurm on hosts, and jobs of the script on two nodes of it.
class Cluster {
 public:
  Cluster(int hosts, const std::string& troupe, const Keys& keys = {})
      : lab(hosts), manifest(place.manifest("run", keys)) {
    place.dir.write("troupe", "#!/bin/bash\necho troupe \"$@\"\n" + troupe);
    fs::permissions(place.dir / "troupe", fs::perms::owner_all);
    lab.start_slurm();
  }
  std::vector<std::string> slurm(const std::vector<std::string>& command) const {
    std::vector<std::string> words = Lab::slurm();
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  std::string ask(const std::vector<std::string>& command) const {
    const Finished done = lab.run(0, slurm(command));
    BOOST_TEST(done.exit_code == 0, done.err);
    return done.out;
  }
  /// Gives Slurm a job; the answer is its number.
  std::string submit() const {
    const std::string number =
        ask({"PATH=" + place.dir.path().string() + ":/usr/bin:/bin", "sbatch", "--parsable",
             "--nodes=2", "--output=" + (place.dir / "job.out").string(), kScript, manifest,
             place.run("run")});
    return number.substr(0, number.find('\n'));
  }
  std::string state(const std::string& job) const {
    const std::string told = ask({"scontrol", "--oneliner", "show", "job", job});
    const auto begin = told.find("JobState=") + 9;
    return told.substr(begin, told.find(' ', begin) - begin);
  }
  void wait_for(const std::string& job, const std::string& wanted) const {
    while (state(job) != wanted) sched_yield();
  }
  std::string printed() const { return content_of(place.dir / "job.out"); }
  void wait_for_print(const std::string& text) const {
    while (printed().find(text) == std::string::npos) sched_yield();
  }

  Workplace place;
  Lab lab;
  const std::string manifest;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_is_stopped_half_way_is_queued_again_and_resumed,
                     *boost::unit_test::precondition(has_slurm)) {
  const Cluster cluster(2,
                        "[ $SLURM_JOB_END_TIME -gt $(date +%s) ] && echo $SLURM_JOB_NODELIST\n[ "
                        "\"$2\" = --resume ] && exit 0\n"
                        "run=${4#run.dir=}; mkdir -p $run; touch $run/manifest.toml; exit 75\n");
  cluster.wait_for(cluster.submit(), "COMPLETED");
  const std::string run = cluster.place.run("run");
  BOOST_TEST(cluster.printed().starts_with("troupe launch " + cluster.manifest +
                                           " --set run.dir=" + run + "\nh[0-1]\n"),
             cluster.printed());
  BOOST_TEST(cluster.printed().ends_with("troupe launch --resume " + run + "\nh[0-1]\n"),
             cluster.printed());
}

BOOST_AUTO_TEST_CASE(a_job_that_is_cancelled_ends_the_launch_in_order,
                     *boost::unit_test::precondition(has_slurm)) {
  const Cluster cluster(2, "trap 'echo saved; exit 0' TERM\nsleep infinity & wait\n");
  const std::string job = cluster.submit();
  cluster.wait_for_print("troupe launch");
  cluster.ask({"scancel", job});
  cluster.wait_for(job, "CANCELLED");
  cluster.wait_for_print("saved");
  BOOST_TEST(cluster.lab.processes(0).empty());
  BOOST_TEST(cluster.lab.processes(1).empty());
}

BOOST_AUTO_TEST_CASE(a_run_whose_job_is_cancelled_is_saved_and_leaves_no_process,
                     *boost::unit_test::precondition(has_slurm)) {
  const Cluster cluster(2, "exec " + binary_on_hosts() + " \"$@\"\n",
                        {{"mesh.pp", "2"}, {"run.max_steps", "100000"}});
  const std::string job = cluster.submit();
  cluster.wait_for_print("step 5/");
  BOOST_TEST(worker_on(cluster.lab, 1) > 0);
  cluster.ask({"scancel", job});
  cluster.wait_for(job, "CANCELLED");
  for (const int host : {0, 1})
    while (!cluster.lab.processes(host).empty()) sched_yield();
  const int last = step_numbers(cluster.place.run("run")).rbegin()->first;
  BOOST_TEST(fs::exists(cluster.place.checkpoint("run", last)));
}

BOOST_AUTO_TEST_CASE(a_node_whose_agent_is_killed_comes_back,
                     *boost::unit_test::precondition(has_slurm)) {
  const Cluster cluster(2, "exec " + binary_on_hosts() + " \"$@\"\n",
                        {{"mesh.pp", "2"}, {"run.max_steps", "1000000"}});
  const std::string job = cluster.submit(), run = cluster.place.run("run");
  cluster.wait_for_print("step 5/");
  kill(agent_on(cluster.lab, 1), SIGKILL);
  wait_for_event(run, "host", {{"host", "h1"}, {"state", "lost"}});
  while (!lost_hosts(run).empty()) sched_yield();
  cluster.ask({"scancel", job});
  cluster.wait_for(job, "CANCELLED");
  for (const int host : {0, 1})
    while (!cluster.lab.processes(host).empty()) sched_yield();
}

BOOST_AUTO_TEST_CASE(a_node_that_is_lost_takes_no_job_with_it,
                     *boost::unit_test::precondition(has_slurm)) {
  Cluster cluster(3, "until [ -e \"$(dirname $0)/enough\" ]; do sleep 0.1; done\n");
  const std::string job = cluster.submit();
  cluster.wait_for_print("troupe launch");
  cluster.lab.poweroff(1);
  while (cluster.ask({"sinfo", "--noheader", "--states=down", "--format=%n"}).find("h1") ==
         std::string::npos)
    sched_yield();
  BOOST_TEST(cluster.state(job) == "RUNNING");
  cluster.place.dir.write("enough", "");
  cluster.wait_for(job, "COMPLETED");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
