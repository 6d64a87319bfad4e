#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tests/support/protocol_driver.h"
#include "tests/support/run_specs.h"

// What becomes of a run whose GPUs fail.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(failed_gpus_test)

namespace {

using Gpus = std::vector<std::string>;

/// The worker of a rank, on a GPU.
MemberJoined joined_on(Driver& driver, int rank, const std::string& uuid) {
  MemberJoined joined = driver.joined(rank);
  joined.member.gpu = {.index = rank, .name = "H200", .uuid = uuid};
  return joined;
}

/// Two ranks on GPUs, which compute.
struct OnGpus : Driver {
  OnGpus() : Driver(test::small_run(2)) {
    on(Started{});
    for (const int rank : {0, 1}) on(joined_on(*this, rank, "GPU-" + std::to_string(rank)));
    ready();
    prepared(1);
  }
  /// Rank 1 fails in the running configuration, for the reason that it always has.
  std::vector<Effect> fail(bool of_gpu) {
    return on(WorkerFailed{.incarnation = workers.at(1),
                           .configuration = configuration(),
                           .message = "CUDA: cudaEventQuery failed with 214",
                           .of_gpu = of_gpu,
                           .now_s = 1});
  }
  /// The replacement of rank 1 joins on a GPU, and all go on.
  void recover(const std::vector<Effect>& loss, const std::string& uuid) {
    const auto next = find<OrderHalt>(loss)->halt.configuration;
    on(joined_on(*this, 1, uuid));
    on(halted(0, next, {.step = 1}));
    ready();
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_gpu_that_failed_twice_is_not_used_again) {
  OnGpus driver;
  const auto first = driver.fail(true);
  BOOST_TEST(find<ReportWorkerLost>(first)->cause ==
             "rank 1 (replica 0, stage 1): CUDA: cudaEventQuery failed with 214 (on GPU 1, H200, "
             "GPU-1)");
  BOOST_TEST((find<SpawnWorker>(first)->failed_gpus == Gpus{}));
  driver.recover(first, "GPU-1");
  // The same failure in the same step, which of a rank on a CPU would end the run.
  const auto second = driver.fail(true);
  BOOST_REQUIRE(find<ReportWorkerLost>(second));
  const std::string& told = find<ReportWorkerLost>(second)->cause;
  BOOST_TEST(told.find("this GPU has failed twice and is not used again") != told.npos, told);
  BOOST_TEST((find<SpawnWorker>(second)->failed_gpus == Gpus{"GPU-1"}));
}

BOOST_AUTO_TEST_CASE(failures_of_two_gpus_are_two_first_ones) {
  OnGpus driver;
  const auto first = driver.fail(true);
  driver.recover(first, "GPU-7");
  const auto second = driver.fail(true);
  BOOST_TEST((find<SpawnWorker>(second)->failed_gpus == Gpus{}));
}

BOOST_AUTO_TEST_CASE(another_failure_that_comes_again_ends_the_run) {
  OnGpus driver;
  const auto first = driver.fail(false);
  BOOST_TEST(find<ReportWorkerLost>(first)->cause.find("GPU-1") == std::string::npos);
  driver.recover(first, "GPU-1");
  BOOST_TEST(!find<SpawnWorker>(driver.fail(false)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
