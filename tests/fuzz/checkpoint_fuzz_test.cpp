#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "stages/files/checkpoint/checkpoint_state.h"
#include "tensor/errors/error.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(checkpoint_fuzz_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

constexpr int kRounds = 600;

struct Fixture {
  test::TempDir run;
  std::filesystem::path dir = test::write_checkpoint(run.path(), test::small_info(), {0, 1, 3}, 2);
  std::vector<std::string> names;
  std::mt19937_64 random{test::fresh_seed()};

  Fixture() {
    for (const auto& entry : std::filesystem::directory_iterator(dir))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
  }
  void write(const std::string& name, const std::string& content) {
    test::write_file(dir / name, content);
  }
  /// Does everything that a run does with a checkpoint.
  void use() {
    const auto reader = CheckpointReader::open(dir);
    reader->check_model(test::small_model());
    reader->verify();
    test::FakeStage stage(test::small_model(), 0, 3);
    reader->load(stage, false);
  }
  /// Uses the checkpoint. True if it was refused as bad data that names a checkpoint.
  bool refused() {
    try {
      use();
      return false;
    } catch (const Error& error) {
      BOOST_REQUIRE(error.kind() == ErrorKind::data);
      BOOST_REQUIRE(std::string(error.what()).find("checkpoint") != std::string::npos);
      return true;
    }
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(checkpoint_fuzz, Fixture)

BOOST_AUTO_TEST_CASE(every_change_but_to_state_json_is_found) {
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = names[test::below(random, names.size())];
    const std::string sound = test::content_of(dir / name);
    const std::string changed = test::mutated(sound, random);
    write(name, changed);
    if (!refused()) BOOST_REQUIRE_MESSAGE(name == "state.json" || changed == sound, name);
    write(name, sound);
  }
  BOOST_TEST(!refused());
}

// With matching checksums the content can be wrong in any way: it is taken or refused, and there is
// never a crash.
BOOST_AUTO_TEST_CASE(a_change_with_a_matching_checksum_is_taken_or_refused) {
  const std::string state = test::content_of(dir / "state.json");
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = names[test::below(random, names.size())];
    if (name == "state.json") continue;
    const std::string sound = test::content_of(dir / name);
    write(name, test::mutated(sound, random));
    try {
      const FileRecord record = record_of(dir / name);
      nlohmann::json agreeing = nlohmann::json::parse(state);
      agreeing["files"][name] = {{"size", record.size}, {"xxh64", record.sum}};
      write("state.json", agreeing.dump());
    } catch (const Error&) {  // a header so broken that it has no checksum
    }
    refused();
    write(name, sound);
    write("state.json", state);
  }
  BOOST_TEST(!refused());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
