#include "launch/run/kept_tokens.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "stages/corpus/token_data.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(kept_tokens_test)

namespace {

namespace fs = std::filesystem;

std::vector<std::int32_t> ids_of(const std::string& path) {
  const auto tokens = stages::TokenFile::open(path);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->num_tokens()));
  tokens->read(0, ids);
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_CASE(workers_open_the_files_that_were_checked_whatever_becomes_of_their_names) {
  const TempDir dir;
  const std::string text = dir / "text.txt";
  std::ofstream(text) << "some words to train on";
  fs::create_directories(dir / "cache");
  const std::string cache = stages::prepare_tokens({.files = {text}}, dir / "cache");
  const std::string data = dir / "data";
  stages::write_indexed_dataset({text}, *stages::Tokenizer::open("bytes"), data);
  const auto want = ids_of(cache);
  launch::Manifest manifest = checked(kSmallManifest);
  manifest.resolve(manifest->text.tokens, cache);
  manifest.resolve(manifest->eval_text.tokens, data + ".bin");
  {
    launch::KeptTokens kept(dir / "links");
    const launch::Manifest given = kept.keep(manifest);
    for (const std::string& name : {cache, data + ".bin", data + ".idx"}) fs::remove(name);
    std::ofstream(cache) << "another corpus";
    BOOST_TEST(ids_of(given->text.tokens) == want, boost::test_tools::per_element());
    BOOST_TEST(ids_of(given->eval_text.tokens) == want, boost::test_tools::per_element());
  }
  BOOST_TEST(!fs::exists(dir / "links"));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_kept_keeps_its_name) {
  const TempDir dir;
  launch::Manifest manifest = checked(kSmallManifest);
  manifest.resolve(manifest->text.tokens, std::string("/nowhere/tokens"));
  BOOST_TEST(launch::KeptTokens(dir / "links").keep(manifest)->text.tokens == "/nowhere/tokens");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
