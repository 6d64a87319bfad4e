#include <boost/test/unit_test.hpp>

#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/errors/error.h"
#include "tests/support/fake_stage.h"
#include "tests/support/hf_files.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(hf_model_fuzz_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

constexpr int kRounds = 1500;

/// Does what a run does with a model's directory: it is taken, or refused as bad data.
void use(const std::filesystem::path& dir) {
  try {
    const auto reader = CheckpointReader::open(dir);
    reader->verify();
    const ModelConfig& model = reader->info().model;
    if (num_parameters(model) > 100'000) return;  // a config may describe any size
    test::FakeStage stage(model, 0, static_cast<int>(model.num_hidden_layers));
    reader->load(stage, false);
  } catch (const Error& error) {
    BOOST_REQUIRE_MESSAGE(error.kind() == ErrorKind::data, error.what());
  }
}

}  // namespace

// A model's directory has no checksums: whatever its files say, there is never a crash.
BOOST_AUTO_TEST_CASE(a_changed_model_is_taken_or_refused) {
  std::mt19937_64 random{test::fresh_seed()};
  const test::TempDir dir;
  ModelConfig shape = test::small_model();
  for (const bool is_gpt2 : {false, true}) {
    const nlohmann::json config = is_gpt2 ? test::gpt2_json() : test::llama_json();
    if (is_gpt2)
      shape = {.kind = ModelKind::gpt2,
               .hidden_size = 8,
               .intermediate_size = 32,
               .num_hidden_layers = 2,
               .num_attention_heads = 2,
               .num_key_value_heads = 2,
               .head_dim = 4,
               .vocab_size = 16,
               .max_position_embeddings = 32,
               .tie_word_embeddings = true};
    const auto model = dir / (is_gpt2 ? "gpt2" : "llama");
    test::write_sharded_model(model, config, test::tensors_of(shape));
    BOOST_CHECK_NO_THROW(CheckpointReader::open(model));
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(model)) files.push_back(entry);
    std::ranges::sort(files);
    for (int round = 0; round < kRounds; ++round) {
      const auto& file = files[test::below(random, files.size())];
      const std::string sound = test::content_of(file);
      test::write_file(file, test::mutated(sound, random));
      use(model);
      test::write_file(file, sound);
    }
    BOOST_CHECK_NO_THROW(CheckpointReader::open(model));
  }
}

BOOST_AUTO_TEST_SUITE_END()
