#include <boost/test/unit_test.hpp>
#include <numeric>

#include "stages/corpus/text/indexed_dataset.h"
#include "stages/corpus/tokens/token_cache.h"
#include "stages/corpus/tokens/token_file.h"
#include "tensor/errors/error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(token_file_fuzz_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

constexpr int kRounds = 5000;

/// Opens a file and reads all its tokens, at odd places, too. Returns whether it was refused, as
/// bad data that names the file.
bool refused(const std::string& path, const std::string& name) {
  try {
    const auto file = TokenFile::open(path);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file->num_tokens()));
    file->read(0, ids);
    file->read(file->num_tokens() / 2,
               std::span(ids).first(static_cast<std::size_t>((file->num_tokens() + 1) / 2)));
    return false;
  } catch (const Error& error) {
    BOOST_REQUIRE(error.kind() == ErrorKind::data);
    BOOST_REQUIRE(std::string(error.what()).find(name) != std::string::npos);
    return true;
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_token_cache_is_read_or_refused) {
  std::mt19937_64 random(test::fresh_seed());
  const test::TempDir dir;
  const std::string text = dir.write("text", "some text to be tokens");
  const std::string lines = dir.write("in.jsonl", "{\"prompt\":\"some\",\"response\":\"text\"}\n");
  for (const TokenSource& source :
       {TokenSource{.files = {text}}, TokenSource{.files = {lines}, .loss_on = LossOn::response}}) {
    const std::string sound = test::content_of(prepare_tokens(source, dir.path().string()));
    int num_refused = 0;
    for (int round = 0; round < kRounds; ++round)
      num_refused += refused(dir.write("file.tokens", test::mutated(sound, random)), "file.tokens");
    BOOST_TEST(num_refused > kRounds / 2);
    BOOST_TEST(!refused(dir.write("file.tokens", sound), "file.tokens"));
  }
}

BOOST_AUTO_TEST_CASE(any_dataset_is_read_or_refused) {
  std::mt19937_64 random(test::fresh_seed());
  const test::TempDir dir;
  const std::string prefix = (dir / "set").string();
  const std::string lines =
      dir.write("in.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"\"}\n{\"text\":\"defgh\"}\n");
  write_indexed_dataset({lines}, *Tokenizer::open("bytes"), prefix);
  const std::string bin = test::content_of(prefix + ".bin"),
                    idx = test::content_of(prefix + ".idx");
  for (int round = 0; round < kRounds; ++round) {
    const bool change_bin = test::below(random, 4) == 0;
    dir.write("set.bin", change_bin ? test::mutated(bin, random) : bin);
    dir.write("set.idx", change_bin && test::below(random, 2) ? idx : test::mutated(idx, random));
    refused(prefix, "set.");
  }
  dir.write("set.bin", bin);
  dir.write("set.idx", idx);
  BOOST_TEST(!refused(prefix, "set."));
}

BOOST_AUTO_TEST_SUITE_END()
