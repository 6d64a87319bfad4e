#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The commands that READMEs tell of, and those that no test can run.

namespace troupe::test {

inline const std::filesystem::path kSource = TROUPE_SOURCE_FOLDER;
inline const std::filesystem::path kWalkThrough = kSource / "launch/docs/walk-through.md";

/// Commands that this test cannot run, and why.
inline const std::map<std::string, std::string> kNotRun{
    {"./launch/quickstart",
     "installs packages, builds and trains for minutes; examples_test runs its manifest"},
    {"./tests/run", "installs packages, builds, and runs this test"},
    {"./tests/run --gpu", "builds, and needs a GPU to test anything"},
    {"./tests/bench/run --gpu", "builds, and needs a GPU to measure anything"},
    {"cmake --build --preset release --target bundle", "bundle_test makes one"},
    {"cmake --install build/release --prefix ~/troupe", "installed_monitor_test does, elsewhere"},
    {"cp -r ~/troupe/share/troupe/examples/monitor my-monitor", "installed_monitor_test does"},
    {"cmake -S my-monitor -B my-monitor/build -DCMAKE_PREFIX_PATH=~/troupe && cmake --build "
     "my-monitor/build",
     "installed_monitor_test does"},
    {"my-monitor/build/loss_monitor RUN", "installed_monitor_test does"},
    {"ninja -C build/release schedules_tests && ctest --preset release -R schedules "
     "--output-on-failure",
     "runs other tests of this build"},
    {"ninja -C build/release stages_tests && ctest --preset release -R '^stages.optimizer_test$' "
     "--output-on-failure",
     "runs other tests of this build"},
    {"build/release/tests/stages_tests --run_test='optimizer_test/*'",
     "runs other tests of this build"},
    {"build/release/troupe launch my.toml --hostfile hosts --set mesh.pp=4",
     "needs other hosts; the tests with the label hosts make some"},
    {"build/release/troupe doctor --hosts my.toml --hostfile hosts", "hosts.preflight_test does"},
    {"build/release/troupe join RUN", "needs another host; hosts.launch_test has one"},
    {"troupe launch M --hostfile F", "needs other hosts, as the others with hosts do"},
    {"troupe launch M --wait-for-hosts N", "needs other hosts"},
    {"troupe join --rendezvous HOST:PORT --token-file F", "needs a launcher on another host"},
    {"build/release/troupe scale RUN --without-host h1",
     "needs other hosts; hosts.drain_test has some"},
    {"troupe measure -o FILE", "takes half a minute in which nothing else should run"},
    {"troupe scale --layout", "names an option; how it is used stands beside the command scale"},
};

/// The commands of a page in their order: lines of shell blocks without their comments, and then
/// code in the text that calls troupe with options.
inline std::vector<std::string> commands_in(const std::filesystem::path& page) {
  std::vector<std::string> commands;
  std::ifstream file(page);
  bool shell = false;
  std::string prose;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      shell = line == "```sh";
      continue;
    }
    if (!shell) {
      prose += line + ' ';
      continue;
    }
    line = std::regex_replace(line, std::regex("\\s*(  #.*)?$"), "");
    if (!line.empty()) commands.push_back(line);
  }
  const std::regex code("`(troupe [^`]* -[^`]*)`");
  for (std::sregex_iterator found(prose.begin(), prose.end(), code), end; found != end; ++found)
    commands.push_back((*found)[1]);
  return commands;
}

inline std::set<std::string> commands_of_readmes() {
  std::set<std::string> commands;
  for (auto entry = std::filesystem::recursive_directory_iterator(kSource);
       entry != std::filesystem::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename();
    // The commands of examples need a cluster; cluster_examples_test runs what they start.
    if (name == "build" || name == "examples" || name.starts_with('.'))
      entry.disable_recursion_pending();
    if (entry->path().extension() != ".md" || entry->path() == kWalkThrough) continue;
    for (std::string& command : commands_in(entry->path())) commands.insert(std::move(command));
  }
  return commands;
}

}  // namespace troupe::test
