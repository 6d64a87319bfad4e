#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <regex>
#include <utility>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests the examples for clusters: files for Kubernetes, a script for Slurm.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(cluster_examples_test)

namespace {

namespace fs = std::filesystem;

const fs::path kExamples = TROUPE_SOURCE_FOLDER "/launch/examples";
const std::vector<std::string> kPods{"job.yaml", "jobset.yaml"};

/// The faults of a file for Kubernetes; `option` may ask for its script instead.
std::string checked(const fs::path& file, const std::vector<std::string>& option = {}) {
  std::vector<std::string> words{"/usr/bin/python3",  // which has python3-yaml
                                 TROUPE_SOURCE_FOLDER "/tests/support/check_kubernetes.py"};
  words.insert(words.end(), option.begin(), option.end());
  words.push_back(file);
  const Finished done = Program(words).finish();
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return done.out;
}

std::string replaced(const std::string& text, const std::string& what, const std::string& with) {
  BOOST_REQUIRE_MESSAGE(std::regex_search(text, std::regex(what)), what << " is not there");
  return std::regex_replace(text, std::regex(what), with);
}

/// Programs `troupe` and `scontrol` that tell how they are called, and variables of a job.
class FakeCluster {
 public:
  FakeCluster() {
    for (const char* name : {"troupe", "scontrol"}) {
      dir.write(name, "#!/bin/sh\necho " + std::string(name) +
                          " \"$@\"\n[ -z \"$FAKE_SECONDS\" ] || exec sleep $FAKE_SECONDS\n"
                          "[ $(basename $0) = scontrol ] || exit ${FAKE_CODE:-0}\n");
      fs::permissions(dir / name, fs::perms::owner_all);
    }
  }
  std::vector<std::string> words(const std::vector<std::string>& variables,
                                 const std::vector<std::string>& command) const {
    std::vector<std::string> all{"env", "PATH=" + dir.path().string() + ":/usr/bin:/bin"};
    all.insert(all.end(), variables.begin(), variables.end());
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }

  TempDir dir;
};

/// The sbatch script as Slurm runs it, for a run in `place`.
std::vector<std::string> batch_job(const FakeCluster& cluster, const Workplace& place,
                                   std::vector<std::string> variables) {
  variables.push_back("SLURM_JOB_ID=17");
  return cluster.words(variables, {"bash", (kExamples / "slurm/train.sbatch").string(),
                                   place.manifest("run"), place.run("run")});
}

}  // namespace

BOOST_AUTO_TEST_CASE(files_for_kubernetes_say_what_its_api_knows) {
  for (const auto& entry : fs::directory_iterator(kExamples / "kubernetes"))
    if (entry.path().extension() == ".yaml") BOOST_TEST(checked(entry.path()) == "");
}

BOOST_AUTO_TEST_CASE(mistakes_in_files_for_kubernetes_are_found) {
  const TempDir dir;
  const std::string whole = content_of(kExamples / "kubernetes/job.yaml");
  const auto fault = [&](const std::string& what, const std::string& with) {
    return checked(dir.write("job.yaml", replaced(whole, what, with)));
  };
  for (const auto& [what, with, told] :
       {std::array{"backoffLimitPerIndex", "backOffLimitPerIndex", "no such key"},
        std::array{"completions: 4", "completions: \"4\"", "another type"},
        std::array{"restartPolicy: Never", "restartPolicy: Always", "none of"},
        std::array{"\n *status: \"True\"", "", "status is lacking"},
        std::array{"status: \"True\"", "status: True", "True is none of"},
        std::array{"  clusterIP: None", "  clusterIP: 10.0.0.1", "before they are ready"},
        std::array{"subdomain: troupe", "subdomain: other", "rendezvous"},
        std::array{"containerPort: 29500", "containerPort: 29501", "rendezvous"},
        std::array{"parallelism: 4", "parallelism: 3", "at once"},
        std::array{"--wait-for-hosts 4", "--wait-for-hosts 3", "waits for all"},
        std::array{"0400", "0444", "token"}, std::array{"0400", "400", "token"},
        std::array{"medium: Memory", "medium: \"\"", "shared memory"},
        std::array{"name: shm(\n *mountPath)", "name: memory$1", "shared memory"},
        std::array{"terminationGracePeriodSeconds: 180", "terminationGracePeriodSeconds: 30",
                   "drain"}})
    BOOST_TEST(fault(what, with).find(told) != std::string::npos,
               what << " -> " << with << ": " << fault(what, with));
}

BOOST_AUTO_TEST_CASE(pods_launch_join_and_resume) {
  const FakeCluster cluster;
  const TempDir dir;
  for (const std::string& file : kPods) {
    const std::string first = file == "job.yaml" ? "troupe-0" : "troupe-host-0-0";
    const std::string common =
        " --rendezvous " + first + ".troupe:29500 --token-file /etc/troupe/token/token\n";
    const std::string runs = (dir / file).string();
    const std::string script =
        replaced(checked(kExamples / "kubernetes" / file, {"--script"}), "/runs", runs);
    const auto pod = [&](int index) {
      return Program(cluster.words({"JOB_COMPLETION_INDEX=" + std::to_string(index)},
                                   {"/bin/sh", "-c", script}))
          .finish()
          .out;
    };
    BOOST_TEST(pod(3) == "troupe join" + common);
    BOOST_TEST(pod(0) == "troupe launch /etc/troupe/run/run.toml --wait-for-hosts 4" + common);
    fs::create_directories(runs + "/troupe");
    write_file(runs + "/troupe/manifest.toml", "");
    BOOST_TEST(pod(0) == "troupe launch --resume " + runs + "/troupe --wait-for-hosts 4" + common);
  }
}

BOOST_AUTO_TEST_CASE(the_run_of_the_pods_can_be_planned) {
  const Workplace place;
  const Finished plan = troupe({"plan", (kExamples / "kubernetes/run.toml").string(), "--set",
                                "data.files=[\"" + (place.dir / "corpus.txt").string() + "\"]",
                                "--set", "run.dir=\"" + place.run("run") + "\""});
  BOOST_TEST(plan.exit_code == 0, plan.err);
  BOOST_TEST(plan.out.find("pp 4 x dp 1 = 4 ranks") != std::string::npos, plan.out);
}

BOOST_AUTO_TEST_CASE(the_script_for_slurm_is_sound) {
  const std::string script = (kExamples / "slurm/train.sbatch").string();
  for (const auto& words :
       {std::vector<std::string>{"bash", "-n", script}, {"shellcheck", script}}) {
    const Finished done = Program(words).finish();
    BOOST_TEST(done.exit_code == 0, done.out + done.err);
  }
  for (const char* option :
       {"--no-kill", "--requeue", "--signal=B:USR1@600", "--ntasks-per-node=1"})
    BOOST_TEST(content_of(script).find("\n#SBATCH " + std::string(option) + "\n") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_job_of_slurm_launches_resumes_and_is_queued_again) {
  const FakeCluster cluster;
  const Workplace place;
  const std::string run = place.run("run");
  const Finished first = Program(batch_job(cluster, place, {})).finish();
  BOOST_TEST(first.exit_code == 0, first.err);
  BOOST_TEST(first.out ==
             "troupe launch " + place.manifest("run") + " --set run.dir=" + run + "\n");
  fs::create_directories(run);
  write_file(run + "/manifest.toml", "");
  const Finished again = Program(batch_job(cluster, place, {"FAKE_CODE=75"})).finish();
  BOOST_TEST(again.exit_code == 75, again.err);
  BOOST_TEST(again.out == "troupe launch --resume " + run + "\nscontrol requeue 17\n");
  const Finished failed = Program(batch_job(cluster, place, {"FAKE_CODE=78"})).finish();
  BOOST_TEST(failed.exit_code == 78, failed.err);
  BOOST_TEST(failed.out == "troupe launch --resume " + run + "\n");
}

BOOST_AUTO_TEST_CASE(a_signal_to_a_job_of_slurm_reaches_the_launch) {
  const FakeCluster cluster;
  const Workplace place;
  for (const auto& [number, passed_on] :
       {std::pair(SIGTERM, SIGHUP), std::pair(SIGUSR1, SIGUSR1)}) {
    Program job(batch_job(cluster, place, {"FAKE_SECONDS=1000000"}));
    BOOST_REQUIRE(job.read_until("troupe launch"));
    job.signal(number);
    const Finished done = job.finish();
    BOOST_TEST(done.exit_code == 128 + passed_on, done.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
