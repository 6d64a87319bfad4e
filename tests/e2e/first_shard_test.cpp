#include <boost/test/unit_test.hpp>
#include <sstream>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests launched runs in which one shard of a stage reads the corpus for all.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(first_shard_test)

namespace {

const Keys kShards{{"mesh.tp", "2"}, {"mesh.pp", "3"}};

Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

/// Whether a process has a token file in its memory.
bool has_tokens(pid_t pid) {
  std::istringstream maps(content_of("/proc/" + std::to_string(pid) + "/maps"));
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(".tokens")) return true;
  return false;
}

/// The ranks of a run that have opened a token file, as (stage, shard).
std::set<std::pair<int, int>> readers(const Workplace& place, const std::string& name,
                                      const Keys& keys) {
  const Keys endless{{"run.max_steps", "100000000"}, {"batch.global", "64"}};
  TroupeProgram program({"launch", place.manifest(name, with(keys, endless))});
  BOOST_REQUIRE(program.read_until("step 2/"));
  std::set<std::pair<int, int>> found;
  const nlohmann::json status = status_of(place.run(name));
  for (const auto& rank : status.at("ranks"))
    if (has_tokens(rank.at("pid").get<pid_t>()))
      found.insert({rank.at("stage").get<int>(), rank.at("shard").get<int>()});
  BOOST_TEST(troupe({"stop", place.run(name)}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_shards_of_the_ends_alone_open_the_corpus) {
  const Workplace place;
  const Keys first = with(kShards, {{"data.reader", "\"first-shard\""}});
  using Ranks = std::set<std::pair<int, int>>;
  BOOST_TEST((readers(place, "first", first) == Ranks{{0, 0}, {2, 0}}));
  BOOST_TEST(readers(place, "every", kShards).size() == 6u);
}

BOOST_AUTO_TEST_CASE(who_reads_the_corpus_changes_no_bit) {
  const Workplace place;
  const auto trained = [&](const std::string& name, const Keys& keys) {
    const Finished done = troupe({"launch", place.manifest(name, keys)});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, name << ": " << done.err);
    return step_numbers(place.run(name));
  };
  const Keys evaluated{{"eval.interval", "3"},
                       {"eval.steps", "2"},
                       {"eval.files", '"' + (place.dir / "corpus.txt").string() + '"'}};
  int number = 0;
  for (const Keys& mesh :
       {kShards, Keys{{"mesh.tp", "2"}, {"mesh.dp", "2"}, {"mesh.sequence_parallel", "true"}},
        Keys{{"mesh.tp", "2"},
             {"mesh.pp", "2"},
             {"schedule.kind", "\"combined-1f1b\""},
             {"schedule.chunks", "2"}},
        Keys{{"mesh.pp", "2"}}}) {
    const std::string name = std::to_string(number++);
    const Keys keys = with(evaluated, mesh);
    const auto every = trained("every" + name, keys);
    const auto first = trained("first" + name, with(keys, {{"data.reader", "\"first-shard\""}}));
    BOOST_TEST(every.size() == 6u);
    BOOST_TEST((first == every), name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
