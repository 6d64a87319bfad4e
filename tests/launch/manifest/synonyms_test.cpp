#include "launch/manifest/toml/synonyms.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "actors/topology/schedule_kinds.h"
#include "launch/manifest/toml/manifest.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

// What tables, keys and values are called elsewhere.

namespace troupe::launch {

BOOST_AUTO_TEST_SUITE(synonyms_test)

namespace {

std::vector<std::string> words_of(std::string_view names) {
  std::istringstream in{std::string(names)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Fails if a name stands twice, or is a name here.
template <typename IsHere>
void check_names(const std::vector<Synonyms>& rows, const IsHere& is_here) {
  std::set<std::string> seen;
  for (const Synonyms& row : rows)
    for (const std::string& name : words_of(row.names)) {
      BOOST_TEST(seen.insert(name).second, name << " stands twice");
      BOOST_TEST(!is_here(name), name << " is a name of this program");
      BOOST_TEST(find_synonym(rows, name) == row.here, name);
    }
}

/// The names of keys in their rows.
std::vector<Synonyms> names_of(std::span<const Key> keys) {
  std::vector<Synonyms> rows;
  for (const Key& key : keys) {
    if (!key.called.empty()) rows.push_back({.names = key.called, .here = key.name});
    for (const std::string& name : words_of(key.called))
      BOOST_TEST(find_key_called(keys, name) == &key, name);
  }
  BOOST_TEST(!rows.empty());
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_named_instead_exists) {
  const auto tables = manifest_tables();
  const auto is_table = [&](std::string_view name) {
    return std::ranges::find(tables, name) != tables.end();
  };
  check_names({kTableSynonyms.begin(), kTableSynonyms.end()}, is_table);
  for (const Synonyms& row : kTableSynonyms) BOOST_TEST(is_table(row.here), row.here);
  const auto is_key = [](std::string_view name) {
    const auto dot = name.find('.');
    return dot != name.npos && find_key(name.substr(0, dot), name.substr(dot + 1)) != nullptr;
  };
  check_names(names_of(manifest_keys()), is_key);
  check_names({kWithoutKey.begin(), kWithoutKey.end()}, [&](std::string_view name) {
    return is_key(name) || find_key_called(manifest_keys(), name);
  });
  for (const auto keys : {row_keys<Source>(), row_keys<EvalSet>(),
                          row_keys<stages::ParameterGroup>(), row_keys<Settings::Stage>()})
    check_names(names_of(keys), [&](std::string_view name) {
      return std::ranges::find(keys, name, &Key::name) != keys.end();
    });
}

BOOST_AUTO_TEST_CASE(values_that_are_named_instead_exist) {
  std::size_t found = 0;
  for (const Key& key : manifest_keys()) {
    std::vector<std::string_view> choices(key.member.choices.begin(), key.member.choices.end());
    if (key.table == "schedule" && key.name == "kind") choices = actors::schedule_kinds();
    const auto is_choice = [&](std::string_view value) {
      return std::ranges::find(choices, value) != choices.end();
    };
    std::vector<Synonyms> rows;
    for (const auto& [of, names, here] : kValueSynonyms)
      if (of == key.full_name()) rows.push_back({.names = names, .here = here});
    found += rows.size();
    check_names(rows, is_choice);
    for (const Synonyms& row : rows) BOOST_TEST(is_choice(row.here), key.name << " " << row.here);
    for (const auto choice : choices)
      BOOST_TEST(value_synonym(key.table, key.name, choice) == "", key.name << " " << choice);
  }
  BOOST_TEST(found == kValueSynonyms.size());
}

BOOST_AUTO_TEST_CASE(a_key_or_value_of_other_trainers_is_told_by_its_name_here) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& words) {
    test::expect_error(ErrorKind::manifest, words, [&] { Manifest::parse(text, "m.toml", {}); });
  };
  refused("[optimizer]\nlearning_rate = 1e-3\n",
          {"m.toml:2:", "'optimizer.learning_rate'", "learning_rate is optimizer.lr here"});
  refused("[mesh]\ntensor-parallel = 2\n", {"tensor-parallel is mesh.tp here"});
  refused("[run]\nSteps = 5\n", {"Steps is run.max_steps here"});
  refused("learning_rate = 1\n", {"outside of a table", "learning_rate is optimizer.lr here"});
  refused("[training]\nmax_steps = 5\n", {"training is [run] here"});
  refused("[data_parallel]\nsharding = \"ZeRO-3\"\n",
          {"ZeRO-3 is sharding = 'optim_grads_params' here"});
  refused("[data_parallel]\nsharding = 3\n",
          {"not an integer", "3 is sharding = 'optim_grads_params' here"});
  refused("[eval]\nevery = 3\n", {"every is eval.interval here"});
  refused("[model]\ndtype = \"bf16\"\n", {"bf16 is dtype = 'bfloat16' here"});
}

BOOST_AUTO_TEST_CASE(of_a_key_that_is_not_here_it_is_told_what_does_the_same) {
  const auto refused = [](const std::string& text, const std::string& word) {
    test::expect_error(ErrorKind::manifest, {word}, [&] { Manifest::parse(text, "m.toml", {}); });
  };
  refused("[run]\nnum_train_epochs = 3\n", "run.max_steps, and launch tells how many epochs");
  refused("epochs = 3\n", "run.max_steps, and launch tells how many epochs");
  refused("[batch]\ngrad_accum = 2\n", "batch.global / (batch.micro * mesh.dp) microbatches");
  refused("[optimizer]\nwarmup_ratio = 0.1\n", "optimizer.warmup_steps");
}

BOOST_AUTO_TEST_CASE(an_override_without_its_table_is_told_the_table) {
  const auto refused = [](const std::string& assignment, const std::string& word) {
    test::expect_error(ErrorKind::usage, {"table.key=value; ", word}, [&] {
      const std::vector<std::string> overrides{assignment};
      Manifest::parse(test::kSmallManifest, "m.toml", overrides);
    });
  };
  refused("max_steps=3", "did you mean run.max_steps?");
  refused("learning_rate=1e-3", "learning_rate is optimizer.lr here");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::launch
