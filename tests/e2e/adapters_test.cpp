#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/trained_run.h"

// Runs that train an adapter of a model, with real processes: layouts, resumes, losses of workers,
// and what becomes of their checkpoints.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(adapters_test)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A base that was trained a little, and runs that train an adapter of it.
struct Base {
  Workplace place;
  std::string base;

  Base() {
    trained(place, "base", {{"run.max_steps", "2"}});
    base = (place.dir / "model").string();
    done({"export", place.checkpoint("base", 2), base});
  }
  static Finished done(const std::vector<std::string>& arguments) {
    Finished finished = troupe(arguments);
    BOOST_REQUIRE_MESSAGE(finished.exit_code == 0, arguments[0] << ": " << finished.err);
    return finished;
  }
  Keys keys(const Keys& more = {}) const {
    Keys all{{"model.from", '"' + base + '"'},
             {"data.tokenizer", ""},
             {"optimizer.lr", "0.01"},
             {"adapter.rank", "4"},
             {"adapter.alpha", "8"},
             {"adapter.targets", R"(["q_proj", "v_proj", "down_proj"])"}};
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_key_value_heads", "vocab_size"})
      all["model." + std::string(key)] = "";
    return with(std::move(all), more);
  }
  Numbers train(const std::string& name, const Keys& more = {}) const {
    return trained(place, name, keys(more));
  }
  double eval_loss(const std::string& model) const {
    const Finished told = done({"eval", model, "--files", (place.dir / "corpus.txt").string(),
                                "--steps", "4", "--seq-len", "16", "--json"});
    return json::parse(told.out).at("loss");
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(every_mesh_trains_an_adapter_as_one_process_does, Base) {
  const Numbers one = train("one");
  BOOST_TEST(one.at(6).loss < one.at(1).loss);
  int number = 0;
  for (const Keys& alike : {Keys{{"mesh.pp", "3"}},
                            {{"mesh.pp", "2"}, {"schedule.kind", "\"zb-h1\""}},
                            {{"mesh.pp", "2"},
                             {"schedule.kind", "\"combined-1f1b\""},
                             {"schedule.chunks", "2"},
                             {"recompute.mode", "\"full\""}}})
    BOOST_TEST((train("alike" + std::to_string(number++), alike) == one));
  for (const Keys& near : {Keys{{"mesh.tp", "2"}},
                           {{"mesh.tp", "4"}, {"mesh.sequence_parallel", "true"}, {"mesh.pp", "2"}},
                           {{"mesh.dp", "2"}},
                           {{"mesh.dp", "2"}, {"data_parallel.sharding", "\"optim_grads_params\""}},
                           {{"mesh.pp", "2"}, {"schedule.kind", "\"dualpipe\""}}}) {
    const std::string name = "near" + std::to_string(number++);
    const double far = distance(train(name, near), one);
    BOOST_TEST(far < 2e-6, name << ": " << far);
  }
}

BOOST_FIXTURE_TEST_CASE(a_checkpoint_goes_on_is_merged_and_begins_others, Base) {
  const Numbers whole = train("whole", {{"run.max_steps", "12"}});
  train("half", {{"mesh.pp", "3"}, {"mesh.tp", "2"}});
  const std::string half = place.checkpoint("half", 6);
  BOOST_TEST(fs::exists(half + "/adapter_config.json"));
  BOOST_TEST(fs::exists(half + "/adapter_model.safetensors"));
  for (const auto& entry : fs::directory_iterator(half))
    BOOST_TEST(!entry.path().filename().string().starts_with("adapter-"));
  const Numbers rest =
      train("rest", {{"checkpoint.resume", '"' + half + '"'}, {"run.max_steps", "12"}});
  BOOST_TEST(rest.size() == 6u);
  BOOST_TEST(distance(rest, whole) < 2e-6, distance(rest, whole));
  done(
      {"launch", "--resume", place.run("half"), "--set", "run.max_steps=12", "--set", "mesh.tp=1"});
  BOOST_TEST(distance(step_numbers(place.run("half")), whole) < 2e-6);
  // Merged, it says the same as both apart.
  const std::string merged = (place.dir / "merged").string();
  done({"export", half, merged});
  BOOST_TEST(eval_loss(half) == eval_loss(merged), boost::test_tools::tolerance(1e-6));
  BOOST_TEST(eval_loss(half) < eval_loss(base));
  // Another run may begin with its matrices, and a third train what they make of the base.
  Keys from = keys({{"adapter.from", '"' + half + '"'}});
  for (const char* key : {"rank", "alpha", "targets"}) from["adapter." + std::string(key)] = "";
  const double first = trained(place, "from", from).at(1).loss;
  Keys full = keys({{"model.from", '"' + half + '"'}});
  for (const char* key : {"rank", "alpha", "targets"}) full["adapter." + std::string(key)] = "";
  BOOST_TEST(trained(place, "full", full).at(1).loss == first, boost::test_tools::tolerance(2e-6));
}

BOOST_FIXTURE_TEST_CASE(a_lost_worker_reads_the_base_again, Base) {
  const Keys endless = keys({{"mesh.pp", "3"},
                             {"run.max_steps", "100000000"},
                             {"checkpoint.interval", "50"},
                             {"recovery.restarts_per_hour", "1000"}});
  const std::string run = place.run("killed");
  TroupeProgram program({"launch", place.manifest("killed", endless)});
  for (int i = 0; i < 3; ++i) {
    BOOST_REQUIRE(program.read_until("step "));
    const auto workers = workers_of(run);
    BOOST_REQUIRE(!workers.empty());
    kill(workers[static_cast<std::size_t>(i) % workers.size()], SIGKILL);
    BOOST_REQUIRE(program.read_until("recovered"));
  }
  BOOST_REQUIRE(program.read_until("step "));
  done({"stop", run});
  BOOST_TEST(program.finish().exit_code == 0);
  const Numbers got = step_numbers(run);
  const Numbers want = train(
      "undisturbed", {{"mesh.pp", "3"}, {"run.max_steps", std::to_string(got.rbegin()->first)}});
  for (const auto& [step, numbers] : got)
    BOOST_TEST((numbers == want.at(step)), "step " << step << ": another loss");
}

BOOST_FIXTURE_TEST_CASE(another_base_is_refused_before_anything_starts, Base) {
  train("one", {{"run.max_steps", "1"}, {"optimizer.warmup_steps", "0"}});
  const std::string one = place.checkpoint("one", 1);
  trained(place, "other", {{"run.max_steps", "3"}});
  done({"export", place.checkpoint("other", 3), (place.dir / "other").string()});
  const auto refused = [&](const Finished& finished, const std::string& word) {
    BOOST_TEST(finished.exit_code != 0);
    BOOST_TEST(finished.err.find(word) != std::string::npos, finished.err);
  };
  const std::string other = '"' + (place.dir / "other").string() + '"';
  refused(
      troupe({"launch", place.manifest("wrong", keys({{"model.from", other},
                                                      {"checkpoint.resume", '"' + one + '"'}}))}),
      "other weights");
  BOOST_TEST(!fs::exists(place.run("wrong")));
  refused(
      troupe({"launch", place.manifest("rank", keys({{"adapter.rank", "2"},
                                                     {"checkpoint.resume", '"' + one + '"'}}))}),
      "adapter.rank is 4");
  refused(
      troupe({"launch", place.manifest("whole", keys({{"checkpoint.resume", '"' + base + '"'}}))}),
      "holds a whole model");
  refused(troupe({"import", one, (place.dir / "never").string()}), "holds an adapter");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
