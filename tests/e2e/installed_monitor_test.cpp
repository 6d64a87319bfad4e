#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>

#include "tests/support/python_program.h"
#include "tests/support/trained_run.h"

// The package Troupe of an installed tree, with which monitors are built elsewhere.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(installed_monitor_test)

namespace {

namespace fs = std::filesystem;

/// Runs a command of the shell; its errors are part of what it prints.
std::string shell(const std::string& command) {
  return output_of("( " + command + " ) 2>&1");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_monitor_built_against_an_installed_tree_follows_a_run_to_its_end) {
  const Workplace place;
  const fs::path build = fs::path(std::getenv("TROUPE_BINARY")).parent_path();
  const fs::path prefix = place.dir / "installed", own = place.dir / "own";
  shell("cmake --install " + build.string() + " --prefix " + prefix.string());
  BOOST_TEST(shell(prefix / "bin/troupe --version").find('.') != std::string::npos);
  // Nothing of the source folder may be used, which is not in the copy.
  fs::copy(prefix / "share/troupe/examples/monitor", own);
  shell("cmake -S " + own.string() + " -B " + (own / "build").string() + " -DCMAKE_PREFIX_PATH=" +
        prefix.string() + " && cmake --build " + (own / "build").string());
  const std::string monitor = (own / "build/loss_monitor").string();

  TroupeProgram run({"launch", place.manifest("run", {{"run.max_steps", "100000000"}})});
  BOOST_REQUIRE(run.read_until("step 2/"));
  auto said = std::async(std::launch::async, output_of, monitor + " " + place.run("run"));
  const auto events = fs::path(place.run("run")) / "events.jsonl";
  while (content_of(events).find("loss monitor") == std::string::npos)
    BOOST_REQUIRE(!run.read_line().empty());
  read_new_steps(run, place.run("run"), 20);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
  const std::string text = said.get();
  BOOST_TEST(std::atoi(text.c_str()) > 0, text);
  BOOST_TEST(text.find("mean loss") != std::string::npos, text);
  const std::string nowhere = (place.dir / "nodir").string();
  BOOST_TEST(shell(monitor + " " + nowhere + "; echo exit $?") ==
             "loss_monitor: " + nowhere +
                 " is not a run directory: it has no manifest.toml\nexit 65\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
