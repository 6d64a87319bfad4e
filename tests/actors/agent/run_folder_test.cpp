#include "actors/agent/run_folder.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(run_folder_test)

namespace {

namespace fs = std::filesystem;

constexpr const char* kLauncher = "10.0.0.1:4000";
constexpr const char* kRunDir = "/scratch/runs/first";

}  // namespace

BOOST_AUTO_TEST_CASE(the_folder_of_a_run_is_the_same_when_its_agent_comes_again) {
  const test::TempDir cache;
  const fs::path folder = run_folder(cache.path(), "n1", kLauncher, kRunDir);
  BOOST_TEST(folder == run_folder(cache.path(), "n1", kLauncher, kRunDir));
  BOOST_TEST(folder != run_folder(cache.path(), "n1", kLauncher, "/scratch/runs/second"));
  BOOST_TEST(folder != run_folder(cache.path(), "n1", "10.0.0.2:4000", kRunDir));
  BOOST_TEST(folder.filename().string().starts_with("first-"));
}

BOOST_AUTO_TEST_CASE(hosts_that_share_a_cache_do_not_empty_each_others_folders) {
  const test::TempDir cache;
  const fs::path first = run_folder(cache.path(), "n1", kLauncher, kRunDir),
                 second = run_folder(cache.path(), "n2", kLauncher, kRunDir);
  fs::create_directories(first / "checkpoints");
  std::ofstream(first / "checkpoints" / "part") << "of step 8";
  empty_run_folder(second);
  BOOST_TEST(fs::exists(first / "checkpoints" / "part"));
  empty_run_folder(first);
  BOOST_TEST(!fs::exists(first / "checkpoints"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
