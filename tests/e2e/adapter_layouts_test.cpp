#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/small_manifest.h"
#include "tests/support/trained_run.h"
#include "tests/support/troupe_program.h"

// Runs that train an adapter: what is tied, dropped, divided or computed again, changes of a live
// run, and what the frozen base takes.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(adapter_layouts_test)

namespace {

using nlohmann::json;

/// A trained model, and the keys of runs that train an adapter of it.
struct Base {
  Workplace place;
  Keys keys;

  explicit Base(const Keys& model) {
    trained(place, "base", with(model, {{"run.max_steps", "2"}}));
    keys = {{"model.from", '"' + place.checkpoint("base", 2) + '"'},
            {"data.tokenizer", ""},
            {"optimizer.lr", "0.01"},
            {"adapter.rank", "3"},
            {"adapter.alpha", "12.0"},
            {"adapter.targets", "[\"q_proj\", \"v_proj\", \"down_proj\"]"}};
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_key_value_heads", "vocab_size"})
      keys["model." + std::string(key)] = "";
  }
  Numbers run(const std::string& name, const Keys& more = {}) const {
    return trained(place, name, with(keys, more));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(layouts_train_an_adapter_alike) {
  const Base base(Keys{{"model.tie_word_embeddings", "true"}});
  const Numbers one = base.run("one");
  BOOST_TEST(one.size() == 6u);
  BOOST_TEST((base.run("stages", {{"mesh.pp", "3"}, {"schedule.kind", "\"zb-h1\""}}) == one));
  BOOST_TEST((base.run("chunks", {{"mesh.pp", "2"},
                                  {"schedule.kind", "\"interleaved\""},
                                  {"schedule.chunks", "3"}}) == one));
  BOOST_TEST((base.run("alone", {{"mesh.pp", "3"}, {"mesh.layout", "\"E|t*6|L\""}}) == one));
  BOOST_TEST((base.run("again", {{"mesh.pp", "2"}, {"recompute.mode", "\"full\""}}) == one));
  const Numbers replicas = base.run("replicas", {{"mesh.dp", "2"}});
  BOOST_TEST(distance(replicas, one) < 2e-6);
  const auto divided = [&](const std::string& division) {
    return base.run(division, {{"mesh.dp", "2"}, {"data_parallel.sharding", '"' + division + '"'}});
  };
  BOOST_TEST((divided("optim") == replicas));
  // Gradients are summed in each microbatch; weights stay whole.
  const Numbers of_gradients = divided("optim_grads");
  BOOST_TEST(distance(of_gradients, one) < 2e-6);
  BOOST_TEST((divided("optim_grads_params") == of_gradients));
}

BOOST_AUTO_TEST_CASE(an_adapter_drops_alike_in_every_layout) {
  const Base base(Keys{});
  const Keys drops{{"adapter.dropout", "0.2"}};
  const Numbers one = base.run("one", drops);
  BOOST_TEST((one != base.run("whole")));
  BOOST_TEST((base.run("stages", with(drops, {{"mesh.pp", "3"}})) == one));
  BOOST_TEST(distance(base.run("shards", with(drops, {{"mesh.tp", "2"}})), one) < 2e-6);
  BOOST_TEST(distance(base.run("replicas", with(drops, {{"mesh.dp", "2"}})), one) < 2e-6);
}

BOOST_AUTO_TEST_CASE(stages_change_while_an_adapter_trains) {
  const Base base(Keys{});
  const std::string run = base.place.run("live");
  TroupeProgram program(
      {"launch", base.place.manifest("live", with(base.keys, {{"run.max_steps", "100000000"}}))});
  BOOST_REQUIRE(program.read_until("step 2/"));
  const Finished scaled = troupe({"scale", run, "--pp", "3"});
  BOOST_TEST(scaled.exit_code == 0, scaled.err);
  const Numbers got = stop_after(6, program, run);
  BOOST_TEST((got == base.run("whole")));
}

BOOST_AUTO_TEST_CASE(a_lost_replica_that_divides_state_reads_the_base_again) {
  const Base base(Keys{});
  const Keys divided{{"mesh.dp", "2"}, {"data_parallel.sharding", "\"optim_grads\""}};
  const std::string run = base.place.run("killed");
  TroupeProgram program(
      {"launch", base.place.manifest(
                     "killed", with(base.keys, with(divided, {{"run.max_steps", "100000000"}})))});
  BOOST_REQUIRE(program.read_until("step 3/"));
  kill(workers_of(run).back(), SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered"));
  const Numbers got = stop_after(6, program, run);
  BOOST_TEST((got == base.run("whole", divided)));
}

namespace {

/// The numbers of the files of memory that a process maps as its base.
std::set<std::string> bases_of(pid_t process) {
  std::set<std::string> found;
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:shared pages") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, rights, offset, device, number;
    words >> range >> rights >> offset >> device >> number;
    BOOST_TEST(rights == "r--s");
    found.insert(number);
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_frozen_base_takes_its_weights_alone_once_a_host) {
  const Base base(Keys{{"model.hidden_size", "256"}, {"model.intermediate_size", "512"}});
  const std::string manifest = base.place.manifest(
      "replicas", with(base.keys, {{"mesh.dp", "2"}, {"run.max_steps", "100000000"}}));
  const json planned = json::parse(troupe({"plan", manifest, "--json"}).out).at("ranks");
  TroupeProgram program({"launch", manifest});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const std::string run = base.place.run("replicas");
  const json ranks = status_of(run).at("ranks");
  BOOST_REQUIRE(ranks.size() == 2u);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const json& plan = planned[rank].at("memory_bytes");
    for (const auto& [purpose, bytes] : plan.items())
      BOOST_TEST(ranks[rank].at("memory_bytes").at(purpose) == bytes, purpose);
    BOOST_TEST(plan.at("gradients").get<double>() < 0.1 * plan.at("weights").get<double>());
    BOOST_TEST(plan.at("optimizer").get<double>() < 0.3 * plan.at("weights").get<double>());
  }
  std::set<std::string> bases;
  for (const pid_t worker : workers_of(run)) {
    const auto mapped = bases_of(worker);
    BOOST_TEST(mapped.size() == 1u);
    bases.insert(mapped.begin(), mapped.end());
  }
  BOOST_TEST(bases.size() == 1u);
  program.signal(SIGTERM);
  BOOST_TEST(program.finish().exit_code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
