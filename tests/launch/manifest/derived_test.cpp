#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "actors/topology/configuration.h"
#include "launch/manifest/resolve/changes.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

// Keys that are derived from others are derived again when a resolved manifest is read.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(derived_test)

namespace {

using launch::Manifest;

/// Reads a run's resolved manifest again, with overrides.
Manifest again(const Manifest& resolved, const std::vector<std::string>& overrides,
               const launch::Machine& machine = kMachine) {
  Manifest m = Manifest::parse(resolved.to_toml(), "manifest.toml", overrides);
  launch::resolve(m, machine);
  return m;
}

bool is_derived(const Manifest& m, const std::string& key) {
  return std::ranges::count(m->derived, key) == 1;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_resolved_manifest_tells_derived_keys_from_given_ones) {
  const Manifest first = checked(kSmallManifest, {"optimizer.decay=cosine", "cluster.spin=true"});
  for (const char* key :
       {"model.head_dim", "optimizer.decay_steps", "schedule.chunks", "cluster.pin", "data.tokens"})
    BOOST_TEST(is_derived(first, key), key);
  for (const char* key : {"model.num_key_value_heads", "cluster.spin", "run.name", "run.dir"})
    BOOST_TEST(!is_derived(first, key), key);
  BOOST_TEST(again(first, {}).to_toml() == first.to_toml());
  BOOST_TEST(again(first, {}).rederived().empty());
}

BOOST_AUTO_TEST_CASE(every_derived_key_follows_what_it_is_derived_from) {
  const std::vector<std::string> base{"optimizer.decay=cosine", "optimizer.warmup_steps=2"};
  const Manifest first = checked(kSmallManifest, base);
  const Manifest longer = again(first, {"run.max_steps=20"});
  BOOST_TEST(longer->optimizer.decay_steps == 18);
  BOOST_REQUIRE(longer.rederived().size() == 1u);
  BOOST_TEST(longer.rederived()[0].key == "optimizer.decay_steps");
  BOOST_TEST((longer.rederived()[0].was == launch::Value(std::int64_t{10})));
  BOOST_TEST(again(longer, {"run.max_steps=30"})->optimizer.decay_steps == 28);
  BOOST_TEST(again(first, {"model.hidden_size=192"})->model.head_dim == 32);
  BOOST_TEST(again(first, {"schedule.kind=interleaved"})->schedule.chunks == 2);
  BOOST_TEST(again(first, {"run.dir=x", "run.name=y"})->name == "y");

  const std::string no_kv = "num_key_value_heads = 2\n", no_dir = "dir = \"/runs/small\"\n";
  std::string text = kSmallManifest;
  for (const std::string& line : {no_kv, no_dir}) text.erase(text.find(line), line.size());
  const Manifest bare = checked(text);
  BOOST_TEST(again(bare, {"model.num_attention_heads=3"})->model.num_key_value_heads == 3);
  BOOST_TEST(again(bare, {"run.name=other"})->dir.ends_with("/runs/other"));

  const launch::Machine small{.free_cores = 1, .memory_bytes = kMachine.memory_bytes};
  BOOST_TEST(first->cluster.pin.value());
  BOOST_TEST(first->cluster.spin.value());
  BOOST_TEST(!again(first, {"mesh.pp=2"}, small)->cluster.pin.value());
  BOOST_TEST(!again(first, {}, small)->cluster.spin.value());
  BOOST_TEST(!again(first, {"cluster.threads=8"})->cluster.spin.value());
}

BOOST_AUTO_TEST_CASE(what_the_user_set_stays) {
  const Manifest first = checked(
      kSmallManifest, {"optimizer.decay=cosine", "optimizer.decay_steps=10", "schedule.chunks=1",
                       "cluster.pin=true", "cluster.spin=true", "model.head_dim=16"});
  const launch::Machine small{.free_cores = 1, .memory_bytes = kMachine.memory_bytes};
  const Manifest longer = again(again(first, {"run.max_steps=20", "mesh.pp=2"}, small), {}, small);
  BOOST_TEST(longer->optimizer.decay_steps == 10);
  BOOST_TEST(longer->schedule.chunks == 1);
  BOOST_TEST(longer->cluster.pin.value());
  BOOST_TEST(longer->cluster.spin.value());
  BOOST_TEST(longer.rederived().empty());
  // An override makes a derived key the user's, for later resumes too.
  const Manifest set =
      again(checked(kSmallManifest, {"optimizer.decay=cosine"}), {"optimizer.decay_steps=5"});
  BOOST_TEST(again(set, {"run.max_steps=20"})->optimizer.decay_steps == 5);
}

BOOST_AUTO_TEST_CASE(workers_take_the_values_as_they_are) {
  const Manifest first = checked(kSmallManifest, {"optimizer.decay=cosine"});
  const auto spec = launch::parse_resolved(first.to_toml());
  BOOST_TEST(spec.optimizer.decay_steps == 12);
  BOOST_TEST(!spec.cluster.pin.has_value());
}

BOOST_AUTO_TEST_CASE(a_change_of_shape_derives_again_and_keeps_the_shape) {
  const Manifest one = checked(kSmallManifest);
  const auto shape_of = [](const std::vector<std::string>& overrides) {
    return actors::first_shape(launch::to_run_spec(checked(kSmallManifest, overrides)));
  };
  const Manifest six = launch::with_shape(one, shape_of({"mesh.pp=6"}), kMachine);
  BOOST_TEST(six->mesh.pp == 6);
  BOOST_TEST(six->cluster.pin.value());
  BOOST_TEST(!six->cluster.spin.value());
  BOOST_TEST(is_derived(six, "cluster.spin"));
  BOOST_TEST(again(launch::with_shape(six, shape_of({}), kMachine), {})->cluster.spin.value());
  // Chunks that the schedule would not have by itself are kept.
  const auto deep = shape_of({"mesh.pp=2", "schedule.kind=interleaved", "schedule.chunks=3"});
  const Manifest changed = again(launch::with_shape(one, deep, kMachine), {});
  BOOST_TEST(changed->schedule.chunks == 3);
  const auto usual = shape_of({"mesh.pp=2", "schedule.kind=interleaved"});
  BOOST_TEST(is_derived(launch::with_shape(one, usual, kMachine), "schedule.chunks"));
}

BOOST_AUTO_TEST_CASE(a_manifest_says_what_was_changed_on_the_way) {
  const Manifest first = checked(kSmallManifest);
  BOOST_TEST(first->changed.empty());
  Manifest resumed = again(first, {"optimizer.lr=0.5", "run.max_steps=99", "mesh.pp=2",
                                   "schedule.kind=gpipe", "monitor.log_interval=7"});
  launch::note_changes(resumed, first, 41);
  const std::vector<std::string> once{"from step 41 on: optimizer.lr = 0.5, was 0.001"};
  BOOST_TEST((resumed->changed == once));
  Manifest scaled = again(resumed, {"mesh.dp=2", "schedule.kind=dualpipe", "mesh.pp=2"});
  launch::note_changes(scaled, resumed, 50);
  BOOST_REQUIRE(scaled->changed.size() == 3u);
  BOOST_TEST(scaled->changed[0] == once[0]);
  BOOST_TEST(scaled->changed[1] == "from step 50 on: mesh.dp = 2, was 1");
  BOOST_TEST(scaled->changed[2].find("\"dualpipe\", was \"gpipe\"") != std::string::npos);
  Manifest same = again(scaled, {});
  launch::note_changes(same, scaled, 60);
  BOOST_TEST((same->changed == scaled->changed));
}

BOOST_AUTO_TEST_CASE(a_shape_that_losses_forced_is_told_and_not_kept) {
  const Manifest two = checked(kSmallManifest, {"mesh.dp=2"});
  const Manifest one = again(two, {"mesh.dp=1"});
  launch::ReshapedManifest kept(two);
  const Manifest shrunk = kept.take(one, 50, false);
  BOOST_TEST(shrunk->mesh.dp == 2);
  const std::vector<std::string> lost{"from step 50 on: mesh.dp = 1, was 2"};
  BOOST_TEST((shrunk->changed == lost));
  const Manifest grown = kept.take(two, 60, true);
  BOOST_TEST(grown->mesh.dp == 2);
  const std::vector<std::string> both{lost[0], "from step 60 on: mesh.dp = 2, was 1"};
  BOOST_TEST((grown->changed == both));
}

BOOST_AUTO_TEST_CASE(only_what_can_be_derived_is_named) {
  expect_error(
      ErrorKind::manifest, {"m.toml:2:11:", "'optimizer.decay_step'", "'optimizer.decay_steps'"},
      [] { Manifest::parse("[run]\nderived = [\"optimizer.decay_step\"]\n", "m.toml", {}); });
  expect_error(ErrorKind::manifest, {"'optimizer.lr'"},
               [] { Manifest::parse("[run]\nderived = [\"optimizer.lr\"]\n", "m.toml", {}); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
