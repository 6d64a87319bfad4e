#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// What the ranks of a run have allocated against what its plan says.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(memory_test)

namespace {

using nlohmann::json;

void check_as_planned(const Workplace& place, const std::string& name, Keys keys) {
  keys["run.max_steps"] = "100000000";
  const std::string manifest = place.manifest(name, keys);
  const json planned = json::parse(troupe({"plan", manifest, "--json"}).out).at("ranks");
  TroupeProgram program({"launch", manifest});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const json ranks = status_of(place.run(name)).at("ranks");
  BOOST_REQUIRE(ranks.size() == planned.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const json& allocated = ranks[rank].at("memory_bytes");
    const json& plan = planned[rank].at("memory_bytes");
    BOOST_TEST(allocated.size() == plan.size());
    for (const auto& [purpose, bytes] : plan.items())
      BOOST_TEST(allocated.at(purpose) == bytes, name << ", rank " << rank << ": " << purpose
                                                      << " of " << allocated.at(purpose)
                                                      << " bytes, planned " << bytes);
    BOOST_TEST(plan.at("weights") > 0);
    BOOST_TEST(ranks[rank].at("resident_bytes") > plan.at("total"));
  }
  program.signal(SIGTERM);
  BOOST_TEST(program.finish().exit_code == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(replicas_of_stages_allocate_what_is_planned) {
  const Workplace place;
  const Keys both{{"mesh.pp", "2"}, {"mesh.dp", "2"}};
  const auto with_sharding = [&](const char* sharding, Keys keys) {
    keys.insert(both.begin(), both.end());
    keys["data_parallel.sharding"] = sharding;
    return keys;
  };
  check_as_planned(place, "none", with_sharding("\"none\"", {}));
  check_as_planned(place, "optim", with_sharding("\"optim\"", {}));
  const Keys buckets{{"data_parallel.bucket_size", "3000"},
                     {"data_parallel.grad_reduce_dtype", "\"bfloat16\""},
                     {"data_parallel.check_for_nan", "true"},
                     {"model.tie_word_embeddings", "true"}};
  check_as_planned(place, "none-buckets", with_sharding("\"none\"", buckets));
  check_as_planned(place, "optim-buckets", with_sharding("\"optim\"", buckets));
}

BOOST_AUTO_TEST_CASE(stages_and_shards_allocate_what_is_planned) {
  const Workplace place;
  check_as_planned(place, "stages", {{"mesh.pp", "3"}});
  const Keys shards{{"mesh.tp", "2"}, {"schedule.kind", "\"combined-1f1b\""}};
  check_as_planned(place, "shards", shards);
  Keys sequence = shards;
  sequence.insert(
      {{"mesh.sequence_parallel", "true"}, {"mesh.pp", "2"}, {"data.reader", "\"first-shard\""}});
  sequence["model.num_key_value_heads"] = "1";
  check_as_planned(place, "sequence", sequence);
}

BOOST_AUTO_TEST_CASE(replicas_that_share_experts_out_allocate_what_is_planned) {
  const Workplace place;
  const auto check = [&](const std::string& name, Keys keys) {
    keys.insert({{"model.kind", "\"mixtral\""},
                 {"model.num_experts", "4"},
                 {"model.num_experts_per_tok", "2"},
                 {"mesh.ep", "2"}});
    check_as_planned(place, name, keys);
  };
  check("two", {{"mesh.dp", "2"}});
  check("four", {{"mesh.dp", "4"}, {"data_parallel.sharding", "\"optim\""}});
  check("stages", {{"mesh.dp", "2"},
                   {"mesh.pp", "2"},
                   {"schedule.kind", "\"combined-1f1b\""},
                   {"data_parallel.sharding", "\"optim_grads\""}});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
