#include "launch/manifest/toml/manifest.h"

#include <stdlib.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "stages/model/model_config.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

// Tests what a manifest's text means, before its values are put together.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(manifest_test)

namespace {

using launch::Manifest;

Manifest parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return Manifest::parse(text, "m.toml", overrides);
}

void refused(const std::string& text, const std::vector<std::string>& words) {
  expect_error(ErrorKind::manifest, words, [&] { parsed(text); });
}

void set_refused(const std::string& override_, const std::vector<std::string>& words) {
  expect_error(ErrorKind::manifest, words, [&] { parsed(kSmallManifest, {override_}); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_renamed_key_is_refused_with_its_new_name) {
  refused("[recovery]\non_loss = \"stop\"\n",
          {"'recovery.on_loss' is called 'recovery.on_failure' now"});
}

BOOST_AUTO_TEST_CASE(every_default_is_a_value_of_its_kind) {
  const Manifest manifest = parsed("");
  for (const launch::Key& key : launch::manifest_keys()) {
    const std::string name = key.full_name();
    BOOST_TEST(manifest.has(key) == !key.fallback.empty(), name);
    BOOST_TEST((key.fallback.empty() || manifest.is_default(key)), name);
    BOOST_TEST(!manifest.given(key), name);
    BOOST_TEST(!key.meaning.empty(), name);
  }
  BOOST_TEST(manifest->optimizer.eps == 1e-8);
  BOOST_TEST(manifest->betas.at(1) == 0.95);
}

BOOST_AUTO_TEST_CASE(every_kind_of_model_has_its_name) {
  const auto kinds = stages::model_kinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const Manifest manifest = parsed(kSmallManifest, {std::string("model.kind=") + kinds[i].name});
    BOOST_TEST((manifest->model.kind == static_cast<stages::ModelKind>(i)), kinds[i].name);
  }
}

BOOST_AUTO_TEST_CASE(values_are_read_with_their_places) {
  const Manifest manifest = parsed(
      "[optimizer]\nlr = 1\nbetas = [0, 0.5]\n[data]\nfiles = 'a.txt'\n[model]\n"
      "tie_word_embeddings = true\n");
  BOOST_TEST(manifest->optimizer.lr == 1.0);
  BOOST_TEST(manifest->betas.at(0) == 0.0);
  BOOST_TEST((manifest->text.files == std::vector<std::string>{"a.txt"}));
  BOOST_TEST(manifest->model.tie_word_embeddings);
  BOOST_TEST(manifest.where(manifest->optimizer.lr) == "m.toml:2:6");
  BOOST_TEST(manifest.where(manifest->batch.micro) == "m.toml");
}

BOOST_AUTO_TEST_CASE(unknown_names_are_refused_with_the_nearest_known_one) {
  refused("[model]\nhiden_size = 4\n",
          {"m.toml:2:1:", "'model.hiden_size'", "'model.hidden_size'"});
  refused("[optimiser]\nlr = 1\n", {"m.toml:1:", "[optimiser]", "[optimizer]"});
  refused("[model]\nlr = 1\n", {"m.toml:2:1:", "'model.lr'", "'optimizer.lr'"});
  refused("[batch]\nmirco = 1\n", {"'batch.micro'", "'seq_len'", "'global'"});
  refused("[[stage]]\nlayer = 2\n", {"m.toml:2:", "[[stage]]", "'layers'"});
  refused("[stage]\nlayers = 2\n", {"m.toml:1:", "mesh.stage", "[[stage]]"});
  refused("[mesh]\nstage = [{dp=2}]\n[[stage]]\ndp = 2\n", {"m.toml:", "both given"});
  refused("seed = 1\n", {"m.toml:1:1:", "'seed'", "did you mean run.seed?"});
  // A name of any length is repeated in part only.
  expect_error(ErrorKind::manifest, {"m.toml:1:"}, [] {
    try {
      parsed("[" + std::string(100000, 'a') + "]\n");
    } catch (const Error& error) {
      BOOST_TEST(std::string(error.what()).size() < 500u);
      throw;
    }
  });
}

BOOST_AUTO_TEST_CASE(wrong_types_are_refused_at_the_value) {
  refused("[run]\nmax_steps = \"many\"\n",
          {"m.toml:2:13:", "run.max_steps", "an integer", "a text"});
  refused("[run]\nmax_steps = 2.5\n", {"m.toml:2:13:", "an integer", "a number"});
  refused("[run]\nname = 3\n", {"run.name", "a text in quotes", "an integer"});
  refused("[data]\nshuffle = 1\n", {"data.shuffle", "true or false"});
  refused("[data]\nfiles = [\"a\", 1]\n", {"data.files", "list of texts"});
  refused("[optimizer]\nbetas = [0.9]\n", {"optimizer.betas", "two numbers"});
  refused("[optimizer]\nbetas = [0.9, true]\n", {"optimizer.betas", "two numbers"});
  refused("[optimizer]\nlr = 1979-05-27\n", {"optimizer.lr", "a date or time"});
  refused("run = 3\n", {"m.toml:1:1:", "[run] must be a table", "an integer"});
  refused("[run]\nseed = {a = 1}\n", {"run.seed", "a table"});
}

BOOST_AUTO_TEST_CASE(numbers_out_of_range_are_refused) {
  refused("[batch]\nmicro = 0\n", {"m.toml:2:9:", "batch.micro = 0", "at least 1"});
  refused("[run]\nseed = -1\n", {"run.seed = -1", "at least 0"});
  refused("[optimizer]\nlr = inf\n", {"optimizer.lr", "finite"});
  refused("[optimizer]\nlr = nan\n", {"optimizer.lr = nan must be", "finite"});
  refused("[optimizer]\nlr = -0.5\n", {"optimizer.lr = -0.5", "at least 0"});
  refused("[optimizer]\neps = 0.0\n", {"optimizer.eps", "above 0"});
  refused("[optimizer]\nbetas = [0.9, 1.0]\n", {"optimizer.betas", "below 1"});
  refused("[cluster]\nport = 65536\n", {"cluster.port = 65536", "at most 65535"});
  refused("[cluster]\nthreads = 0\n", {"cluster.threads = 0", "at least 1"});
  refused("[model]\nhidden_size = 9223372036854775807\n", {"model.hidden_size", "at most"});
  refused("[model]\ndtype = \"bfloat\"\n", {"m.toml:2:9:", "'bfloat16'", "'float32'"});
  refused("[optimizer]\ndecay = \"cos\"\n", {"'cosine'", "'wsd'"});
}

BOOST_AUTO_TEST_CASE(syntax_errors_have_line_and_column) {
  refused("[run]\nname = \n", {"m.toml:2:"});
  refused("[run]\nname = \"a\"\nname = \"b\"\n", {"m.toml:3:"});
  refused("[run\n", {"m.toml:1:"});
  for (const char* word : {"four", "nobody", "inner", "yes"})
    refused(std::string("[mesh]\npp = ") + word + "\n", {"m.toml:2:", "a text needs quotes"});
  refused("[run]\nname = \"\xff\"\n", {"m.toml:2:"});
}

BOOST_AUTO_TEST_CASE(overrides_replace_what_the_file_says) {
  const Manifest manifest = parsed(
      kSmallManifest, {"batch.micro=4", "run.name=other name", "data.files=b.txt",
                       "eval.files=[\"x\", \"y\"]", "run.dir=\"/tmp/x\"", "monitor.web=[::1]:0",
                       "optimizer.lr=1e-4", "data.shuffle=true", "batch.micro=8"});
  BOOST_TEST(manifest->batch.micro == 8);
  BOOST_TEST(manifest->name == "other name");
  BOOST_TEST((manifest->text.files == std::vector<std::string>{"b.txt"}));
  BOOST_TEST((manifest->eval_text.files == std::vector<std::string>{"x", "y"}));
  BOOST_TEST(manifest->dir == "/tmp/x");
  BOOST_TEST(manifest->monitor.web == "[::1]:0");
  BOOST_TEST(manifest->optimizer.lr == 1e-4);
  BOOST_TEST(manifest->data.shuffle);
  BOOST_TEST(manifest.where(manifest->batch.micro) == "--set batch.micro=8");
}

BOOST_AUTO_TEST_CASE(wrong_overrides_are_named) {
  set_refused("batch.micro=two", {"--set batch.micro=two:", "an integer", "not 'two'"});
  set_refused("mesh.pp=four", {"--set mesh.pp=four:", "mesh.pp must be an integer, not 'four'"});
  set_refused("data.shuffle=yes", {"data.shuffle must be true or false, not 'yes'"});
  set_refused("batch.micro=1.5", {"--set batch.micro=1.5:", "an integer"});
  set_refused("batch.micro=0", {"--set batch.micro=0:", "at least 1"});
  set_refused("batch.micro=1\n[x]", {"--set batch.micro=1"});
  set_refused("batch.mikro=1", {"'batch.micro'"});
  set_refused("bach.micro=1", {"[batch]"});
  for (const char* shapeless : {"batch.micro", "batch=1", "=1", "", "x.y"})
    expect_error(ErrorKind::usage, {"table.key=value"},
                 [&] { parsed(kSmallManifest, {shapeless}); });
}

BOOST_AUTO_TEST_CASE(a_resolved_manifest_reads_as_itself) {
  const Manifest manifest = checked(
      kSmallManifest,
      {"run.name=\"qu\\\"ote \\\\ and \\u00e9\"", "optimizer.lr=0.1", "optimizer.eps=1e-300",
       "optimizer.clip=1e25", "model.rope_theta=500000", "data.files=[\"/a b\", \"/tab\\there\"]"});
  const std::string text = manifest.to_toml();
  const Manifest again = Manifest::parse(text, "again", {});
  for (const launch::Key& key : launch::manifest_keys()) {
    const std::string name = key.full_name();
    BOOST_TEST((manifest.value(key) == again.value(key)), name);
    const bool is_left_out = key.is_rare && manifest.is_default(key);
    BOOST_TEST(again.given(key) == (manifest.given(key) || (!key.fallback.empty() && !is_left_out)),
               name);
  }
  BOOST_TEST(again.to_toml() == text);
}

BOOST_AUTO_TEST_CASE(a_tilde_is_the_home_directory) {
  const TempDir home;
  setenv("HOME", home.path().c_str(), 1);
  const Manifest manifest = checked(
      kSmallManifest, {"run.dir=~/runs/a", "data.files=[\"~/a.txt\", \"./~b\"]",
                       "data.tokenizer=~/spm.model", "checkpoint.resume=~", "eval.files=/c/~"});
  BOOST_TEST(manifest->dir == home / "runs/a");
  BOOST_TEST(manifest->text.files.at(0) == home / "a.txt");
  BOOST_TEST(manifest->text.files.at(1) == std::filesystem::current_path() / "~b");
  BOOST_TEST(manifest->data.tokenizer == home / "spm.model");
  BOOST_TEST(manifest->checkpoint.resume == home.path());
  BOOST_TEST(manifest->eval_text.files.at(0) == "/c/~");
  for (const char* set : {"run.dir=~somebody/x", "data.files=~x"})
    expect_error(ErrorKind::manifest, {std::string("--set ") + set, "only ~ and ~/", "./~"},
                 [&] { checked(kSmallManifest, {set}); });
}

BOOST_AUTO_TEST_CASE(a_missing_file_is_named) {
  expect_error(ErrorKind::manifest, {"/nowhere/nothere.toml"},
               [] { Manifest::read("/nowhere/nothere.toml", {}); });
  const TempDir dir;
  expect_error(ErrorKind::manifest, {dir.path().string(), "is a directory"},
               [&] { Manifest::read(dir.path(), {}); });
  const auto path = dir.write("manifest.toml", kSmallManifest);
  expect_error(ErrorKind::manifest, {"is a directory", path},
               [&] { Manifest::read(dir.path(), {}); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
