#include "actors/topology/layers/layer_split.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <random>
#include <regex>

#include "actors/topology/layers/layer_letters.h"
#include "actors/topology/scale.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/run_specs.h"
#include "tests/support/seed.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(layer_split_test)

namespace {

stages::ModelConfig model_of(int layers) {
  stages::ModelConfig model = test::small_run().model;
  model.num_hidden_layers = layers;
  return model;
}

std::vector<int> split(const std::string& text, int layers, int chunks) {
  return split_layers(parse_split(text), model_of(layers), chunks);
}

void check(const std::vector<int>& got, const std::vector<int>& want) {
  BOOST_TEST(got == want, boost::test_tools::per_element());
}

void refused(const std::string& text, int layers, int chunks,
             const std::vector<std::string>& words) {
  BOOST_TEST_CONTEXT(text)
  test::expect_error(ErrorKind::usage, words, [&] { split(text, layers, chunks); });
}

ScaleRequest to_layout(const std::string& layout) {
  ScaleRequest request;
  request.layout = layout;
  return request;
}

/// Expands a text by Megatron-LM's two replacements: first groups, once, and then single letters.
std::string expanded_by_regex(std::string text) {
  std::erase(text, ',');
  for (const char* pattern : {R"(\(([^()]+)\)\*(\d+))", R"((.)\*(\d+))"}) {
    std::string out;
    const std::regex repeated(pattern);
    auto rest = text.cbegin();
    for (std::sregex_iterator at(text.begin(), text.end(), repeated), end; at != end; ++at) {
      out.append(rest, (*at)[0].first);
      for (int i = 0; i < std::stoi((*at)[2]); ++i) out += (*at)[1];
      rest = (*at)[0].second;
    }
    text = out.append(rest, text.cend());
  }
  return text;
}

std::string random_items(std::mt19937_64& random, bool groups) {
  std::string text;
  for (std::size_t i = 1 + test::below(random, 4); i > 0; --i) {
    const std::size_t kind = test::below(random, groups ? 4 : 3);
    if (kind == 3) {
      text += "(" + random_items(random, false) + ")*" + std::to_string(test::below(random, 4));
      continue;
    }
    text += kind == 0 ? '|' : 't';
    if (test::below(random, 3) == 0) text += "*" + std::to_string(test::below(random, 12));
    if (test::below(random, 4) == 0) text += ',';
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rules_fit_any_number_of_chunks) {
  for (const std::string rule : {"", "even", "ends", "parameters"})
    for (int layers = 1; layers <= 12; ++layers)
      for (int chunks = 1; chunks <= layers; ++chunks) {
        const auto counts = split(rule, layers, chunks);
        BOOST_REQUIRE(std::ssize(counts) == chunks);
        BOOST_REQUIRE(std::accumulate(counts.begin(), counts.end(), 0) == layers);
        BOOST_REQUIRE(std::ranges::min(counts) >= 1);
      }
}

BOOST_AUTO_TEST_CASE(even_chunks_differ_by_one_at_most_and_the_first_are_larger) {
  for (int layers = 1; layers <= 12; ++layers)
    for (int chunks = 1; chunks <= layers; ++chunks) {
      const auto counts = split("", layers, chunks);
      BOOST_REQUIRE(counts.front() - counts.back() <= 1);
      BOOST_REQUIRE(std::ranges::is_sorted(counts, std::greater()));
      BOOST_REQUIRE((counts == split("even", layers, chunks)));
    }
}

BOOST_AUTO_TEST_CASE(embedding_and_head_count_as_a_layer_each) {
  check(split("ends", 30, 4), {7, 8, 8, 7});
  check(split("ends", 6, 3), {2, 3, 1});
  check(split("ends", 7, 3), {2, 3, 2});
  check(split("ends", 4, 4), {1, 1, 1, 1});
  check(split("ends", 5, 1), {5});
}

BOOST_AUTO_TEST_CASE(no_split_by_parameters_has_a_smaller_largest_chunk) {
  for (const bool tied : {false, true})
    for (const std::int64_t vocab : {8, 200, 1000}) {
      stages::ModelConfig model = model_of(9);
      model.vocab_size = vocab;
      model.tie_word_embeddings = tied;
      // The positions lie beside the embedding, but not beside the head's copy of it.
      const bool is_gpt2 = vocab == 200;
      if (is_gpt2) {
        model.kind = stages::ModelKind::gpt2;
        model.num_key_value_heads = model.num_attention_heads;
        model.max_position_embeddings = 3000;
      }
      const std::int64_t positions = is_gpt2 ? 3000 * model.hidden_size : 0;
      const std::int64_t table = vocab * model.hidden_size;
      const std::int64_t norm = (is_gpt2 ? 2 : 1) * model.hidden_size;
      const std::int64_t layer =
          (num_parameters(model) - (tied ? 1 : 2) * table - positions - norm) / 9;
      const auto largest = [&](const std::vector<int>& counts) {
        std::vector<std::int64_t> sizes;
        for (const int n : counts) sizes.push_back(n * layer);
        sizes.front() += table + positions;
        sizes.back() += table + norm;
        return std::ranges::max(sizes);
      };
      const std::int64_t got = largest(split_layers(parse_split("parameters"), model, 3));
      for (int first = 1; first <= 7; ++first)
        for (int second = 1; first + second <= 8; ++second)
          BOOST_TEST(got <= largest({first, second, 9 - first - second}));
    }
}

BOOST_AUTO_TEST_CASE(numbers_and_letters_say_the_same) {
  check(split("6,8,8,8", 30, 4), {6, 8, 8, 8});
  check(split("Et*6|(t*8|)*2t*8L", 30, 4), {6, 8, 8, 8});
  check(split("Ettt|tt|tL", 6, 3), {3, 2, 1});
  check(split("E,t*3|(tt|)*2,tL", 8, 4), {3, 2, 2, 1});
  check(split("EtL", 1, 1), {1});
  check(split("Et*1,2L", 12, 1), {12});  // commas mean nothing
  check(split("Et|*1tL", 2, 2), {1, 1});
  BOOST_TEST(to_letters({3, 1, 2}) == "Et*3|t|t*2L");
}

BOOST_AUTO_TEST_CASE(random_letters_mean_what_their_repetitions_written_out_mean) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = "E" + random_items(random, true) + "L";
    const std::string letters = expanded_by_regex(text);
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << text << " = " << letters) {
      std::vector<int> layers{0};
      for (const char letter : letters) {
        if (letter == '|') layers.push_back(0);
        if (letter == 't') ++layers.back();
      }
      check(parse_letters(text), layers);
      // No layer is lost or doubled: layers are split as asked, or the split is refused.
      const int chunks = static_cast<int>(layers.size());
      const int all = std::max(chunks, std::accumulate(layers.begin(), layers.end(), 0));
      try {
        check(split(text, all, chunks), layers);
      } catch (const Error& error) {
        const std::string message = error.what(), before = "nearest: ";
        const auto at = message.find(before);
        BOOST_REQUIRE_MESSAGE(at != std::string::npos, message);
        const auto nearest = split(message.substr(at + before.size()), all, chunks);
        BOOST_TEST(std::accumulate(nearest.begin(), nearest.end(), 0) == all);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_lost_or_too_much_is_named_with_a_split_that_fits) {
  refused("4,1", 6, 2, {"5 layers", "has 6", "layer 5 is lost", "nearest: 4,2"});
  refused("2,1", 6, 2, {"layers 3-5 are lost", "nearest: 2,4"});
  refused("4,3", 6, 2, {"7 layers", "1 too many", "nearest: 4,2"});
  refused("-1,7", 6, 2, {"chunk 0 -1 layers", "nearest: 0,6"});
  refused("0,0,5", 6, 3, {"layer 5 is lost", "nearest: 0,0,6"});
  refused("0,0", 6, 2, {"layers 0-5 are lost", "nearest: 0,6"});
  refused("1,1,1,1", 3, 4, {"1 too many", "nearest: 0,1,1,1"});
  refused("4,2", 6, 3, {"2 chunks instead of 3", "nearest: 4,1,1"});
  refused("2147483647,2147483647", 6, 2, {"4294967294 layers", "nearest: 5,1"});
  refused("Ettt|ttL", 6, 2, {"layer 5 is lost", "nearest: Et*3|t*3L"});
  refused("E|t*5|L", 6, 3, {"layer 5 is lost", "nearest: E|t*5|tL"});
}

BOOST_AUTO_TEST_CASE(chunks_may_lack_layers_where_each_is_told_its_own) {
  check(split("0,6,0", 6, 3), {0, 6, 0});
  check(split("E|t*6|L", 6, 3), {0, 6, 0});
  check(split("Et*2||(|)*1t*4|L", 6, 5), {2, 0, 0, 4, 0});
  BOOST_TEST(to_letters({0, 6, 0}) == "E|t*6|L");
  BOOST_TEST(to_letters({0, 0, 1}) == "E||tL");
}

BOOST_AUTO_TEST_CASE(letters_against_the_grammar_are_refused_where_they_are) {
  refused("ttt|tttL", 6, 2, {"no E", "first chunk", "such as Et*3|t*3L"});
  refused("Ettt|ttt", 6, 2, {"no L", "last chunk", "such as Et*3|t*3L"});
  refused("Ettt|EtttL", 6, 2, {"E 2 times"});
  refused("ttt|EtttL", 6, 2, {"its E elsewhere"});
  refused("EtttL|ttt", 6, 2, {"its L elsewhere"});
  refused("Et*3|(tt|)*29,m|L", 61, 32, {"multi-token prediction"});
  refused("Et t|tL", 3, 2, {"no letter at column 3"});
  refused("Etx|tL", 3, 2, {"'x' at column 3", "E (embedding)"});
  refused("Et*2*2L", 4, 1, {"'*' at column 5"});
  refused("E(tt)L", 2, 1, {"'L' at column 6", "the group's *n"});
  refused("E((t)*2)*2L", 4, 1, {"'(' at column 3"});
  refused("E()*2tL", 1, 1, {"')' at column 3"});
  refused("E(tt", 2, 1, {"ends", "its )"});
  refused("Et*", 1, 1, {"ends", "a number"});
  refused("Et*xL", 1, 1, {"'x' at column 4", "a number"});
  refused("E(t*4096)*4096L", 6, 1, {"more than 8193 letters"});
  refused("E|*99999999999999999999L", 6, 1, {"more than 8193 letters"});
  refused("evenly", 6, 2, {"even, ends, parameters", "3,2,1", "Et*3|t*2|tL"});
  refused("3,", 6, 2, {"3,2,1"});
  refused("3,x", 6, 2, {"3,2,1"});
}

BOOST_AUTO_TEST_CASE(a_running_run_takes_on_a_split) {
  RunSpec spec = test::small_run(2);
  spec.model.vocab_size = 400;
  const ClusterShape now = first_shape(spec);
  check(layers_of(scaled(spec, now, to_layout("4,2")).layout), {4, 2});
  check(layers_of(scaled(spec, now, to_layout("Ett|t*4L")).layout), {2, 4});
  ScaleRequest eight = to_layout("0,2,0,4,0,0,0,0");
  eight.pp = 8;
  check(layers_of(scaled(spec, now, eight).layout), {0, 2, 0, 4, 0, 0, 0, 0});
  ScaleRequest three = to_layout("parameters");
  three.pp = 3;
  check(layers_of(scaled(spec, now, three).layout), {1, 4, 1});
  test::expect_error(ErrorKind::usage, {"--layout 3,2 ", "layer 5 is lost", "nearest: 3,3"},
                     [&] { scaled(spec, now, to_layout("3,2")); });
  test::expect_error(ErrorKind::usage,
                     {"--layout even is what the run has already: pp 2 x dp 1, 1f1b, layers 3,3"},
                     [&] { scaled(spec, now, to_layout("")); });
  test::expect_error(ErrorKind::usage, {"nothing to change"}, [&] { scaled(spec, now, {}); });
  three.layout = "3,3";
  test::expect_error(ErrorKind::usage,
                     {"--layout 3,3 has 2 chunks instead of 3", "nearest: 3,2,1",
                      "--pp 3 means pp 3 with 1 chunk a stage"},
                     [&] { scaled(spec, now, three); });
}

BOOST_AUTO_TEST_CASE(a_split_changes_no_number_of_stages_unasked) {
  RunSpec spec = test::small_run(2);
  test::expect_error(ErrorKind::usage,
                     {"--layout 3,2,1 has 3 chunks instead of 2", "nearest: 3,3",
                      "the run has pp 2 with 1 chunk a stage (1f1b)", "give --pp 3 too"},
                     [&] { scaled(spec, first_shape(spec), to_layout("3,2,1")); });
  spec.schedule = {.kind = "interleaved", .chunks = 2};
  const ClusterShape now = first_shape(spec);
  check(layers_of(scaled(spec, now, to_layout("2,1,2,1")).layout), {2, 1, 2, 1});
  test::expect_error(ErrorKind::usage,
                     {"--layout 3,3 has 2 chunks instead of 4", "nearest: 3,1,1,1",
                      "pp 2 with 2 chunks a stage (interleaved)", "give --pp 1 too"},
                     [&] { scaled(spec, now, to_layout("3,3")); });
  ScaleRequest plain = to_layout("2,1,2,1");
  plain.schedule = "1f1b";
  test::expect_error(
      ErrorKind::usage,
      {"--layout 2,1,2,1 has 4 chunks instead of 2", "1 chunk a stage (1f1b)", "give --pp 4 too"},
      [&] { scaled(spec, now, plain); });
  plain.pp = 4;
  BOOST_TEST(scaled(spec, now, plain).mesh.pp == 4);
  plain.schedule = "dualpipe";  // two copies of two chunks per stage
  const ClusterShape two = scaled(spec, now, plain);
  BOOST_TEST(two.mesh.pp == 4);
  BOOST_TEST(to_string(two) ==
             "pp 4 x dp 1, dualpipe with 2 chunks a stage, layers 2,1,2,1 in 2 copies");
}

BOOST_AUTO_TEST_CASE(a_plan_of_ones_own_takes_another_split_but_no_other_mesh) {
  RunSpec spec = test::small_run(2);
  spec.batch.global = 2;
  spec.schedule = {.kind = "csv", .chunks = 2, .csv = "0F0,2F0,2B0,0B0\n1F0,1B0\n"};
  const ClusterShape now = first_shape(spec);
  check(layers_of(scaled(spec, now, to_layout("1,4,1")).layout), {1, 4, 1});
  test::expect_error(ErrorKind::usage, {"2 chunks instead of 3", "nearest: 1,1,4"},
                     [&] { scaled(spec, now, to_layout("1,1")); });
  ScaleRequest three;
  three.pp = 3;
  test::expect_error(ErrorKind::usage, {"a plan for one shape, 2 stages and 1 microbatch"},
                     [&] { scaled(spec, now, three); });
  // A run that has left its plan finds the way back.
  ScaleRequest leave, back;
  leave.schedule = "gpipe";
  back.schedule = "csv";
  const ClusterShape left = scaled(spec, now, leave);
  BOOST_TEST(left.schedule.csv == "");
  BOOST_TEST((scaled(spec, left, back) == now));
  test::expect_error(ErrorKind::usage, {"--schedule csv: this launch has no plan of its own"}, [&] {
    const RunSpec other = test::small_run(2);
    scaled(other, first_shape(other), back);
  });
}

BOOST_AUTO_TEST_CASE(a_rule_holds_for_whatever_shape_comes_next) {
  RunSpec spec = test::small_run(2);
  spec.layout = "ends";
  spec.model.num_hidden_layers = 7;
  ScaleRequest three;
  three.pp = 3;
  const ClusterShape next = scaled(spec, first_shape(spec), three);
  check(layers_of(next.layout), {2, 3, 2});
  spec.layout = "Et*6|tL";
  check(layers_of(scaled(spec, first_shape(spec), three).layout), {3, 2, 2});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
