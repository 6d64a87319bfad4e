#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/child_processes.h"
#include "tests/support/trained_run.h"

// Tests eval and generate over ranks on emulated GPUs, which TROUPE_CUDA_PATH names.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(emulated_ranks_test)

namespace {

const Keys kCpu{{"mesh.pp", "1"}};
const Keys kGpt2{{"model.kind", "\"gpt2\""},
                 {"model.num_key_value_heads", ""},
                 {"model.max_position_embeddings", "20"}};

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_on_a_device_evaluate_and_generate_as_one) {
  const Workplace place;
  trained(place, "run", kCpu);
  const std::string checkpoint = place.checkpoint("run", 6);
  const std::string corpus = (place.dir / "corpus.txt").string();
  const auto said = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), {"--json", "--device", "cuda"});
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = troupe(words);
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    return nlohmann::json::parse(done.out);
  };
  const auto loss = [&](const std::vector<std::string>& more) {
    return said({"eval", checkpoint, "--files", corpus, "--steps", "2"}, more)
        .at("loss")
        .get<double>();
  };
  const auto ids = [&](const std::vector<std::string>& more) {
    return said(
               {"generate", checkpoint, "--prompt", "the ", "--tokens", "12", "--temperature", "0"},
               more)
        .at("outputs")
        .at(0)
        .at("ids");
  };
  const double one = loss({});
  BOOST_TEST(loss({"--pp", "2"}) == one);
  BOOST_TEST(loss({"--tp", "2"}) == one, boost::test_tools::tolerance(1e-5));
  const auto text = ids({});
  for (const auto& ranks : {std::vector<std::string>{"--pp", "3"}, {"--pp", "2", "--tp", "2"}})
    BOOST_TEST((ids(ranks) == text), ranks[0]);
}

BOOST_AUTO_TEST_CASE(shards_sum_few_tokens_in_each_others_memory) {
  const Workplace place;
  for (const Keys& model : {Keys{}, kGpt2}) {
    const std::string name = model.empty() ? "llama" : "gpt2";
    trained(place, name, with(kCpu, model));
    const auto said = [&](const std::string& device, const std::string& shards) {
      const Finished done =
          troupe({"generate", place.checkpoint(name, 6), "--prompt", "the ", "--tokens", "12",
                  "--temperature", "0", "--json", "--device", device, "--tp", shards});
      BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
      BOOST_TEST((done.err.find("by one kernel") != std::string::npos) ==
                     (device == "cuda" && shards == "2"),
                 done.err);
      return nlohmann::json::parse(done.out);
    };
    const nlohmann::json one = said("cuda", "1"), two = said("cuda", "2");
    BOOST_TEST(!one.contains("shard_sums"));
    BOOST_TEST(two.at("shard_sums") == "one-shot");
    BOOST_TEST(said("cpu", "2").at("shard_sums") == "collectives");
    BOOST_TEST((two.at("outputs") == one.at("outputs")), name);
  }
}

BOOST_AUTO_TEST_CASE(a_shard_whose_kernel_waits_for_a_killed_one_ends_with_the_reason) {
  const Workplace place;
  trained(place, "run", kCpu);
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "a prompt\n";
  TroupeProgram program({"generate", place.checkpoint("run", 6), "--prompt-file",
                         place.dir.write("prompts.txt", lines), "--tokens", "8", "--device", "cuda",
                         "--tp", "2"});
  BOOST_REQUIRE(program.read_until("a prompt"));  // of the first batch, of many
  const auto ranks = children_of(program.pid());
  BOOST_REQUIRE(ranks.size() == 1u);
  kill(ranks[0], SIGKILL);
  const Finished done = program.finish();
  BOOST_TEST(done.exit_code == 70, done.err);
  BOOST_TEST(done.err.find("by one kernel") != std::string::npos, done.err);
  BOOST_TEST(done.err.find("SIGKILL") != std::string::npos, done.err);
}

BOOST_AUTO_TEST_CASE(stages_of_different_width_send_pieces_between_devices) {
  const Workplace place;
  const Keys common{{"cluster.device", "\"cuda\""},
                    {"batch.micro", "1"},
                    {"batch.global", "4"},
                    {"run.max_steps", "3"}};
  const Numbers one = trained(place, "one", common);
  int number = 0;
  for (const auto& [stages, edges] :
       {std::pair{"[{dp=2}, {dp=1}]", "peer"}, {"[{tp=2}, {dp=2}]", "staged"}}) {
    const std::string name = "wide" + std::to_string(number++);
    const Numbers wide = trained(place, name,
                                 with(common, {{"mesh.pp", "2"},
                                               {"mesh.stage", stages},
                                               {"cluster.edges", '"' + std::string(edges) + '"'}}));
    BOOST_TEST(wide.size() == 3u);
    BOOST_TEST(distance(wide, one) < 2e-6, stages << ": " << distance(wide, one));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
