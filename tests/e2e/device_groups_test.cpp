#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/environment_setting.h"
#include "tests/support/trained_run.h"

// Tests runs on emulated GPUs whose groups are on the fake NCCL, which lies beside the library that
// TROUPE_CUDA_PATH names, against runs whose groups are staged through host memory.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_groups_test)

namespace {

using nlohmann::json;

const Keys kRun{{"cluster.device", "\"cuda\""},
                {"model.num_hidden_layers", "4"},
                {"batch.micro", "1"},
                {"batch.global", "4"},
                {"mesh.pp", "1"}};

/// The folder of the emulated device without NCCL, from here to the end of the scope.
class WithoutNccl {
 public:
  explicit WithoutNccl(const std::filesystem::path& folder)
      : before_(std::getenv("TROUPE_CUDA_PATH")) {
    std::filesystem::remove_all(folder);
    std::filesystem::copy(
        before_, folder,
        std::filesystem::copy_options::copy_symlinks | std::filesystem::copy_options::recursive);
    for (const auto& file : std::filesystem::directory_iterator(folder))
      if (file.path().filename().string().starts_with("libnccl.")) std::filesystem::remove(file);
    setenv("TROUPE_CUDA_PATH", folder.c_str(), 1);
  }
  ~WithoutNccl() { setenv("TROUPE_CUDA_PATH", before_.c_str(), 1); }
  WithoutNccl(const WithoutNccl&) = delete;
  WithoutNccl& operator=(const WithoutNccl&) = delete;

 private:
  const std::string before_;
};

/// By what the groups of a run have communicated.
std::set<std::string> collectives_of(const std::string& run_dir) {
  std::set<std::string> collectives;
  std::istringstream lines(content_of(run_dir + "/events.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (const json event = json::parse(line); event.at("kind") == "groups")
      collectives.insert(event.at("collectives").get<std::string>());
  return collectives;
}

bool are_all_on_nccl(const std::string& run_dir) {
  const json status = status_of(run_dir);
  for (const json& rank : status.at("ranks"))
    if (rank.value("collectives", "") != "nccl") return false;
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_on_nccl_have_the_bits_of_staged_ones) {
  const Workplace place;
  const std::map<std::string, Keys> layouts{
      {"shards", {{"mesh.tp", "2"}}},
      {"replicas", {{"mesh.dp", "2"}, {"data_parallel.sharding", "\"optim_grads_params\""}}},
      {"pairs",
       {{"mesh.pp", "2"},
        {"mesh.tp", "2"},
        {"schedule.kind", "\"combined-1f1b\""},
        {"schedule.chunks", "2"}}}};
  for (const auto& [name, layout] : layouts) {
    const Keys keys = with(kRun, layout);
    const Numbers on_nccl = trained(place, name, keys);
    BOOST_TEST(collectives_of(place.run(name)).contains("nccl"), name);
    const WithoutNccl staged(place.dir / "staged");
    BOOST_TEST((trained(place, name + "_staged", keys) == on_nccl), name);
    BOOST_TEST(!collectives_of(place.run(name + "_staged")).contains("nccl"), name);
  }
}

BOOST_AUTO_TEST_CASE(nccl_finds_the_network_of_the_run_and_no_multicast_unless_the_user_chose) {
  const Workplace place;
  /// What all ranks have found.
  const auto settings_in = [&](const std::string& name) {
    const std::string file = (place.dir / (name + ".settings")).string();
    setenv("FAKE_NCCL_TELL", file.c_str(), 1);
    trained(place, name, with(kRun, {{"mesh.tp", "2"}, {"run.max_steps", "2"}}));
    unsetenv("FAKE_NCCL_TELL");
    std::istringstream lines(content_of(file));
    std::set<std::string> settings;
    for (std::string line; std::getline(lines, line);) settings.insert(line);
    return settings;
  };
  BOOST_TEST((settings_in("own") == std::set<std::string>{"=lo 0"}));
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  BOOST_TEST((settings_in("chosen") == std::set<std::string>{"lo 1"}));
  unsetenv("NCCL_SOCKET_IFNAME");
  unsetenv("NCCL_NVLS_ENABLE");
}

BOOST_AUTO_TEST_CASE(sums_of_the_library_are_those_in_order_but_for_rounding) {
  const Workplace place;
  const Keys shards = with(kRun, {{"mesh.tp", "2"}});
  const Numbers in_order = trained(place, "in_order", shards);
  const Numbers own = trained(place, "own", with(shards, {{"cluster.collectives", "\"nccl\""}}));
  BOOST_REQUIRE(own.size() == in_order.size());
  for (const auto& [step, numbers] : own)
    BOOST_TEST(numbers.loss == in_order.at(step).loss, boost::test_tools::tolerance(1e-5));
}

BOOST_AUTO_TEST_CASE(a_death_changes_no_bit_and_nccl_takes_over_again) {
  const Workplace place;
  const Keys keys = with(kRun, {{"mesh.pp", "2"}, {"mesh.tp", "2"}, {"run.max_steps", "1000000"}});
  const std::string run = place.run("killed");
  TroupeProgram program({"launch", place.manifest("killed", keys)});
  const auto take_over = [&] {
    do BOOST_REQUIRE(program.read_until("step "));
    while (!are_all_on_nccl(run));
  };
  take_over();
  kill(workers_of(run).at(1), SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered"));
  take_over();
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  const Numbers got = step_numbers(run);
  const int last = got.rbegin()->first;
  BOOST_TEST(
      (trained(place, "calm", with(keys, {{"run.max_steps", std::to_string(last)}})) == got));
}

/// NCCL does not compare what its members call: they stand still, and tell each other.
BOOST_AUTO_TEST_CASE(a_call_that_the_other_shard_does_not_make_is_named) {
  const Workplace place;
  const Keys keys = with(kRun, {{"mesh.tp", "2"},
                                {"run.max_steps", "1000000"},
                                {"recovery.silent", "0.0"},
                                {"recovery.hang", "0.0"}});
  const std::map<std::string, std::string> strays{{"operation", "all-gather of [0-9]+ float32"},
                                                  {"count", "all-reduce of [0-9]+ float32"},
                                                  {"dtype", "all-reduce of [0-9]+ bfloat16"}};
  std::map<std::string, Numbers> got;
  int last = 0;
  for (const auto& [differs, call] : strays) {
    const Setting stray("EMULATED_STRAY", "1:40:" + differs);
    TroupeProgram program({"launch", place.manifest(differs, keys)});
    BOOST_REQUIRE(program.read_until("members must call the same collectives"));
    BOOST_REQUIRE(program.read_until("recovered at step"));
    const Finished records = troupe({"collectives", place.run(differs)});
    BOOST_TEST(troupe({"stop", place.run(differs)}).exit_code == 0);
    BOOST_TEST(program.finish().exit_code == 0);
    const std::string sum = "( \\(sum\\))?";
    const std::regex named(
        "group \"shards of stage 0, forwards\": number [0-9]+ is all-reduce of "
        "[0-9]+ float32" +
        sum + " at rank 0 and " + call + sum + " at rank 1");
    for (const std::string& text : {program.shown(), records.out})
      BOOST_TEST(std::regex_search(text, named), text);
    got[differs] = step_numbers(place.run(differs));
    last = std::max(last, got[differs].rbegin()->first);
  }
  const Numbers calm =
      trained(place, "calm", with(keys, {{"run.max_steps", std::to_string(last)}}));
  for (const auto& [differs, numbers] : got)
    BOOST_TEST((until_step(numbers.rbegin()->first, calm) == numbers), differs);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
