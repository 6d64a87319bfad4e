#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests that a bundle runs elsewhere, in another folder and with an empty environment.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(bundle_test)

namespace {

namespace fs = std::filesystem;

const fs::path kSource = TROUPE_SOURCE_FOLDER;

/// Runs a command line of the shell; its output and errors together.
Finished shell(const std::string& command) {
  Finished done;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  BOOST_REQUIRE(pipe != nullptr);
  std::array<char, 4096> part{};
  while (const std::size_t got = fread(part.data(), 1, part.size(), pipe))
    done.out.append(part.data(), got);
  done.exit_code = WEXITSTATUS(pclose(pipe));
  return done;
}

/// A bundle of the program under test, moved from where it was made.
class Bundle {
 public:
  Bundle() {
    const fs::path build = fs::path(std::getenv("TROUPE_BINARY")).parent_path();
    const fs::path made = place.dir / "made";
    const Finished make = shell((kSource / "launch/make_bundle").string() + " " + build.string() +
                                " " + made.string());
    BOOST_REQUIRE_MESSAGE(make.exit_code == 0, make.out);
    fs::rename(made, path());
  }
  fs::path path() const { return place.dir / "away"; }
  /// Runs a program of the bundle from the root folder, with nothing in its environment but PATH
  /// and HOME.
  Finished run(const std::string& command) const {
    return shell("cd / && env -i PATH=/usr/bin:/bin HOME=" + place.dir.path().string() + " " +
                 (path() / command).string());
  }

  Workplace place;
};

std::size_t bytes_of(const fs::path& folder) {
  std::size_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && !entry.is_symlink()) bytes += entry.file_size();
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_bundle_runs_elsewhere_with_an_empty_environment) {
  const Bundle bundle;
  BOOST_TEST(bytes_of(bundle.path()) < std::size_t{64} << 20);
  const Finished doctor = bundle.run("bin/troupe doctor");
  BOOST_TEST(doctor.exit_code == 0, doctor.out);
  const Finished own =
      bundle.run("bin/troupe launch " + bundle.place.manifest("own", {{"mesh.pp", "2"}}));
  BOOST_TEST(own.exit_code == 0, own.out);
  BOOST_TEST(step_numbers(bundle.place.run("own")).size() == 6u);
  const std::string example = (bundle.path() / "examples/two_stages.toml").string();
  const Finished launch =
      bundle.run("bin/troupe launch " + example +
                 " --set run.max_steps=2 --set run.dir=" + bundle.place.run("example"));
  BOOST_TEST(launch.exit_code == 0, launch.out);
}

BOOST_AUTO_TEST_CASE(a_bundle_brings_every_library_but_the_systems) {
  const Bundle bundle;
  for (const auto& entry : fs::recursive_directory_iterator(bundle.path())) {
    const fs::path folder = entry.path().parent_path().filename();
    // Plug-ins find their libraries by the program that loads them.
    if (!entry.is_regular_file() || folder != "bin") continue;
    std::istringstream lines(shell("ldd " + entry.path().string()).out);
    for (std::string line; std::getline(lines, line);) {
      const auto arrow = line.find(" => ");
      if (arrow == std::string::npos) continue;
      const bool is_systems = line.find(" => /lib") != std::string::npos;
      const bool is_own = line.find(bundle.path().string(), arrow) != std::string::npos;
      BOOST_TEST((is_own || is_systems), line);
      for (const char* name : {"libdnnl", "libuc", "libcaf", "libfmt", "libgomp", "libhwloc"})
        if (line.find(name) < arrow) BOOST_TEST(is_own, line);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_tests_and_benchmarks_of_gpus_start_from_a_bundle) {
  const Bundle bundle;
  if (!fs::exists(bundle.path() / "bin/gpu_tests.tar.xz")) return;  // built without nvcc
  const Finished run = bundle.run("tests/run --gpu");
  BOOST_TEST(run.exit_code == 0, run.out);
  for (const char* test : {"first_questions", "ops_test", "training_test", "edges_test"})
    BOOST_TEST(run.out.find(std::string(" ") + test) != std::string::npos, run.out);
  BOOST_TEST(run.out.find(" 0 failed, ") != std::string::npos, run.out);
  const Finished part = bundle.run("tests/run --gpu=ops_test");
  BOOST_TEST(part.exit_code == 0, part.out);
  BOOST_TEST(part.out.find("training_test") == std::string::npos, part.out);
  BOOST_TEST(bundle.run("tests/run --gpu=another").exit_code == 64);
  const fs::path built = fs::path(std::getenv("TROUPE_BINARY")).parent_path();
  if (!fs::exists(built / "tests/bench/gpu_bench")) return;  // benchmarks were not built
  const Finished measured =
      bundle.run("tests/bench/run --gpu --no-build gpu_adamw gpu_torch_7b_2048");
  BOOST_TEST(measured.exit_code == 0, measured.out);
  for (const char* name : {"gpu_adamw", "gpu_torch_7b_2048"})
    BOOST_TEST(measured.out.find(name) != std::string::npos, measured.out);
  BOOST_TEST(fs::exists(bundle.path() / "bin/gpu_bench"));
}

BOOST_AUTO_TEST_CASE(every_manifest_of_a_bundle_can_be_planned) {
  const Bundle bundle;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(bundle.path() / "examples")) {
    if (entry.path().extension() != ".toml") continue;
    ++count;
    const Finished plan = bundle.run("bin/troupe plan " + entry.path().string());
    BOOST_TEST(plan.exit_code == 0, entry.path() << ": " << plan.out);
  }
  BOOST_TEST(count >= 5);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
