#include <boost/test/unit_test.hpp>

#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/errors/error.h"
#include "tests/support/adapter_files.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(adapter_fuzz_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

constexpr int kRounds = 1500;

/// Does what a command does with an adapter's directory: it is taken, or refused as bad data.
void use(const std::filesystem::path& dir) {
  try {
    const auto reader = CheckpointReader::open(dir);
    const ModelConfig& model = reader->info().model;
    test::FakeStage merged(model, 0, static_cast<int>(model.num_hidden_layers));
    reader->load(merged, false);
    test::FakeStage apart(reader->info().trained_model(), 0,
                          static_cast<int>(model.num_hidden_layers));
    reader->load(apart, false);
  } catch (const Error& error) {
    BOOST_REQUIRE_MESSAGE(error.kind() == ErrorKind::data, error.what());
  }
}

}  // namespace

// Directories of PEFT have no checksums: whatever their files say, there is never a crash.
BOOST_AUTO_TEST_CASE(a_changed_adapter_is_taken_or_refused) {
  std::mt19937_64 random{test::fresh_seed()};
  test::AdapterFiles files;
  for (const nlohmann::json& targets :
       {nlohmann::json{"k_proj", "up_proj"}, nlohmann::json(R"(.*\.(k_proj|mlp\.up_proj))")}) {
    const auto dir =
        files.peft(test::llama_json(), {"k_proj", "up_proj"}, {{"target_modules", targets}});
    BOOST_CHECK_NO_THROW(CheckpointReader::open(dir));
    for (int round = 0; round < kRounds; ++round) {
      const auto file = dir / (round % 2 ? "adapter_config.json" : "adapter_model.safetensors");
      const std::string sound = test::content_of(file);
      test::write_file(file, test::mutated(sound, random));
      use(dir);
      test::write_file(file, sound);
    }
    BOOST_CHECK_NO_THROW(CheckpointReader::open(dir));
  }
}

BOOST_AUTO_TEST_SUITE_END()
