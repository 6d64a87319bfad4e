#include "tests/hosts/hosts_runs.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace troupe::test {

std::string binary_on_hosts() {
  return std::filesystem::absolute(std::getenv("TROUPE_BINARY")).string();
}

Keys on_hosts(Keys keys) {
  std::string words;
  for (const std::string& word : Lab::ssh()) words += (words.empty() ? "" : " ") + word;
  keys["cluster.ssh"] = '"' + words + '"';
  keys["cluster.program"] = '"' + binary_on_hosts() + '"';
  // Each host would bind its first rank to the first core of what is one machine.
  keys.emplace("cluster.pin", "false");
  return keys;
}

std::vector<std::string> launch_on_hosts(const Workplace& place, const std::string& manifest,
                                         const std::string& hosts) {
  return {binary_on_hosts(), "launch", manifest, "--hostfile", place.dir.write("hosts", hosts)};
}

std::vector<Lab::Process> programs_on(const Lab& lab, int host) {
  std::vector<Lab::Process> programs;
  for (Lab::Process& process : lab.processes(host)) {
    while (process.command.ends_with(' ')) process.command.pop_back();
    const std::string program = process.command.substr(0, process.command.find(' '));
    if (program == binary_on_hosts() || program == "/proc/self/exe") programs.push_back(process);
  }
  return programs;
}

pid_t agent_on(const Lab& lab, int host) {
  for (const Lab::Process& process : programs_on(lab, host))
    if (process.command.starts_with(binary_on_hosts() + " join")) return process.pid;
  return 0;
}

pid_t worker_on(const Lab& lab, int host) {
  for (const Lab::Process& process : programs_on(lab, host))
    if (process.command.ends_with(" worker")) return process.pid;
  return 0;
}

std::map<int, StepNumbers> alone(const Workplace& place, const std::string& name,
                                 const Keys& keys) {
  const Finished run = troupe({"launch", place.manifest(name, keys)});
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  return step_numbers(place.run(name));
}

namespace {

std::vector<nlohmann::json> events_of(const std::string& run_dir, const std::string& kind) {
  std::vector<nlohmann::json> events;
  std::ifstream file(run_dir + "/events.jsonl");
  for (std::string line; std::getline(file, line);) {
    auto event = nlohmann::json::parse(line, nullptr, false);  // the last may be unfinished
    if (!event.is_discarded() && event.value("kind", "") == kind)
      events.push_back(std::move(event));
  }
  return events;
}

}  // namespace

std::size_t num_events(const std::string& run_dir, const std::string& kind,
                       const std::map<std::string, std::string>& fields) {
  const auto events = events_of(run_dir, kind);
  return static_cast<std::size_t>(std::ranges::count_if(events, [&](const auto& event) {
    return std::ranges::all_of(
        fields, [&](const auto& field) { return event.value(field.first, "") == field.second; });
  }));
}

std::string failures(const std::string& run_dir) {
  std::string lines;
  for (const auto& event : events_of(run_dir, "failure")) lines += event.dump() + "\n";
  return lines;
}

std::set<std::string> lost_hosts(const std::string& run_dir) {
  std::set<std::string> lost;
  for (const auto& event : events_of(run_dir, "host")) {
    const auto host = event.at("host").get<std::string>();
    if (event.at("state") == "lost")
      lost.insert(host);
    else
      lost.erase(host);
  }
  return lost;
}

void wait_for_event(const std::string& run_dir, const std::string& kind,
                    const std::map<std::string, std::string>& fields) {
  while (num_events(run_dir, kind, fields) == 0)  // the test's timeout bounds it
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace troupe::test
