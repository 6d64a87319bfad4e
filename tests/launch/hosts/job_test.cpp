#include <boost/test/unit_test.hpp>
#include <map>

#include "launch/hosts/hosts_plan.h"
#include "tensor/errors/error.h"
#include "tests/support/expect_error.h"

// Tests what is read from the environment of batch systems and starters of parallel programs.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(job_test)

namespace {

using launch::Job;

launch::Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Job job_in(const std::map<std::string, std::string>& variables) {
  return launch::job_of(environment_of(variables));
}

/// As sbatch starts a script on the first of three nodes.
const std::map<std::string, std::string> kBatch{{"SLURM_JOB_ID", "12"},
                                                {"SLURM_JOB_NODELIST", "n[08-09],gpu1"},
                                                {"SLURM_JOB_CPUS_PER_NODE", "4(x2),16"},
                                                {"SLURM_TASKS_PER_NODE", "1(x3)"},
                                                {"SLURM_PROCID", "0"},
                                                {"SLURMD_NODENAME", "n08"}};

std::map<std::string, std::string> step(const std::string& process, const std::string& local) {
  auto variables = kBatch;
  variables["SLURM_STEP_ID"] = "3";
  variables["SLURM_STEP_NUM_TASKS"] = "4";
  variables["SLURM_STEP_NODELIST"] = "n[08-09]";
  variables["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
  variables["SLURM_PROCID"] = process;
  variables["SLURM_LOCALID"] = local;
  return variables;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_says_anything) {
  const Job job = job_in({{"HOME", "/root"}});
  BOOST_TEST((job.kind == Job::Kind::none && job.is_first && job.is_first_of_host));
}

BOOST_AUTO_TEST_CASE(a_job_with_a_time_limit_has_so_many_seconds_left) {
  const auto left = [](std::map<std::string, std::string> variables, std::int64_t now) {
    return launch::seconds_left(environment_of(std::move(variables)), now);
  };
  BOOST_TEST(left(kBatch, 1'900'000'000) == 0);
  BOOST_TEST(left({{"SLURM_JOB_END_TIME", "4000000000"}}, 3'999'999'000) == 1000);
  BOOST_TEST(left({{"SLURM_JOB_END_TIME", "1900000000"}}, 1'900'000'001) == 0);
  expect_error(ErrorKind::unavailable, {"SLURM_JOB_END_TIME", "soon"}, [&] {
    left({{"SLURM_JOB_END_TIME", "soon"}}, 0);
  });
}

BOOST_AUTO_TEST_CASE(a_slurm_allocation_has_hosts_with_a_slot_for_each_processor) {
  const Job job = job_in(kBatch);
  BOOST_TEST((job.kind == Job::Kind::allocation && job.is_first));
  BOOST_TEST(job.num_hosts == 3);
  BOOST_TEST(job.own == "n08");
  BOOST_REQUIRE(job.hosts.size() == 3u);
  BOOST_TEST(
      (job.hosts[0].name == "n08" && job.hosts[1].name == "n09" && job.hosts[2].name == "gpu1"));
  BOOST_TEST((job.hosts[0].slots == 4 && job.hosts[1].slots == 4 && job.hosts[2].slots == 16));
}

BOOST_AUTO_TEST_CASE(the_first_process_of_a_slurm_step_launches) {
  const Job first = job_in(step("0", "0")), other = job_in(step("2", "0")),
            twin = job_in(step("1", "1"));
  BOOST_TEST((first.kind == Job::Kind::process && first.is_first && first.num_hosts == 2));
  BOOST_TEST((!other.is_first && other.is_first_of_host));
  BOOST_TEST((!twin.is_first && !twin.is_first_of_host));
  BOOST_TEST((first.key == other.key && first.key == "slurm-12.3"));
}

BOOST_AUTO_TEST_CASE(mpirun_and_torchrun_number_their_processes) {
  const Job mpi = job_in({{"OMPI_COMM_WORLD_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"PMIX_NAMESPACE", "abc"}});
  BOOST_TEST((mpi.kind == Job::Kind::process && mpi.num_hosts == 2 && !mpi.is_first));
  BOOST_TEST(mpi.is_first_of_host);
  BOOST_TEST(mpi.key == "mpirun-abc");
  const Job torch =
      job_in({{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "8"}});
  BOOST_TEST((torch.is_first && torch.num_hosts == 1));
  // Hosts may have different numbers of processes, which each host tells of itself.
  const Job uneven = job_in({{"OMPI_COMM_WORLD_RANK", "0"},
                             {"OMPI_COMM_WORLD_SIZE", "3"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                             {"OMPI_MCA_orte_num_nodes", "2"}});
  BOOST_TEST((uneven.num_hosts == 2 && uneven.num_processes == 3 && uneven.own_processes == 1));
  const Job two = job_in({{"RANK", "4"},
                          {"WORLD_SIZE", "6"},
                          {"LOCAL_RANK", "0"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"GROUP_WORLD_SIZE", "2"}});
  BOOST_TEST((two.num_hosts == 2 && two.own_processes == 2));
  // One process of its own is no job: shells keep such variables.
  BOOST_TEST((job_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).kind == Job::Kind::none));
}

BOOST_AUTO_TEST_CASE(processes_that_know_a_secret_meet_where_the_environment_says) {
  const auto place_of = [](std::map<std::string, std::string> variables,
                           const std::string& host = "n08") {
    variables.insert({{"MASTER_ADDR", host}, {"MASTER_PORT", "29500"}});
    return launch::rendezvous_of({.token_file = "token"}, job_in(variables));
  };
  const std::map<std::string, std::string> mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                                               {"OMPI_COMM_WORLD_SIZE", "2"}};
  for (const auto& variables : {mpi, step("2", "0")}) {
    const launch::HostAndPort place = place_of(variables);
    BOOST_TEST((place.host == "n08" && place.port == 29500));
  }
  BOOST_TEST(place_of(mpi, "fe80::1").host == "fe80::1");
  // Torchrun's own process listens there, unless it says otherwise.
  auto torchrun = mpi;
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  expect_error(ErrorKind::usage, {"--token-file token", "--rendezvous HOST:PORT"},
               [&] { place_of(torchrun); });
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  BOOST_TEST(place_of(torchrun).port == 29500);
  const launch::HostAndPort named = launch::rendezvous_of(
      {.rendezvous = "head:7", .token_file = "token"}, job_in({{"MASTER_ADDR", "n08"}}));
  BOOST_TEST((named.host == "head" && named.port == 7));
}

BOOST_AUTO_TEST_CASE(a_variable_that_holds_no_number_is_named) {
  auto broken = kBatch;
  broken["SLURM_TASKS_PER_NODE"] = "1(xmany)";
  BOOST_CHECK_EXCEPTION(job_in(broken), Error, [](const Error& error) {
    return std::string(error.what()).find("SLURM_TASKS_PER_NODE") != std::string::npos;
  });
  broken = kBatch;
  broken["SLURM_JOB_NODELIST"] = "n[3-1]";
  BOOST_CHECK_THROW(job_in(broken), Error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
