#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/support/trained_run.h"

// Tests that every layout of one model computes the same numbers, with real processes and real UCX.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(layouts_test)

namespace {

void check_same(const std::string& name, const Numbers& a, const Numbers& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  for (const auto& [step, numbers] : a)
    BOOST_CHECK_MESSAGE(numbers == b.at(step), name << ", step " << step << ": loss "
                                                    << numbers.loss << " and " << b.at(step).loss
                                                    << ", norm " << numbers.grad_norm << " and "
                                                    << b.at(step).grad_norm);
}

void check_close(const std::string& name, const Numbers& a, const Numbers& b, double relative) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  for (const auto& [step, numbers] : a) {
    const double worst = std::abs(numbers.loss - b.at(step).loss) / b.at(step).loss;
    BOOST_CHECK_MESSAGE(worst <= relative,
                        name << ", step " << step << ": " << worst << " relative");
  }
}

const Keys kLayouts[] = {
    {{"mesh.pp", "2"}},
    {{"mesh.pp", "3"}},
    {{"mesh.pp", "4"}},  // 2, 2, 1, 1 layers
    {{"mesh.pp", "2"}, {"schedule.kind", "\"gpipe\""}},
    {{"mesh.pp", "2"}, {"schedule.kind", "\"interleaved\""}, {"schedule.chunks", "2"}},
    {{"mesh.pp", "2"}, {"schedule.kind", "\"interleaved\""}, {"schedule.chunks", "3"}},
    {{"mesh.pp", "2"}, {"schedule.kind", "\"interleaved\""}, {"mesh.layout", "\"E(t|)*2,tt|ttL\""}},
    {{"mesh.pp", "3"}, {"mesh.layout", "\"parameters\""}},
    // Stages with the embedding alone, the head alone, and nothing.
    {{"mesh.pp", "3"}, {"mesh.layout", "\"E|t*6|L\""}},
    {{"mesh.pp", "3"}, {"schedule.kind", "\"zb-h1\""}, {"mesh.layout", "\"Et*3||t*3L\""}},
    {{"mesh.pp", "2"},
     {"schedule.kind", "\"zb-v\""},
     {"schedule.chunks", "2"},
     {"mesh.layout", "\"0,2,4,0\""}},
    {{"mesh.pp", "3"},
     {"schedule.kind", "\"zb-1p\""},
     {"schedule.costs", "\"F=1:1:3,I=1:1:2,W=1,hop=0.1\""}},
    // A user's own plan, with split and reordered backward passes.
    {{"mesh.pp", "2"},
     {"schedule.kind", "\"csv\""},
     {"schedule.csv",
      "\"\"\"0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B1,0B0,0B2,0B3,0I4,0I5,0W4,0W5,0B6,0B7\n"
      "1F0,1F1,1B1,1B0,1F2,1B2,1F3,1B3,1F4,1F5,1I5,1I4,1W4,1W5,1F6,1B6,1F7,1B7\n\"\"\""}},
};

std::string title(const Keys& keys) {
  std::string text;
  for (const auto& [key, value] : keys) text += key + "=" + value.substr(0, 14) + " ";
  return text;
}

void check_all_layouts(const Workplace& place, const Keys& common) {
  const auto base = trained(place, "base", common);
  BOOST_TEST(std::abs(base.at(1).loss - std::log(256.0)) < 0.2);
  BOOST_TEST(base.at(6).loss < base.at(1).loss);
  int number = 0;
  for (Keys keys : kLayouts) {
    keys.insert(common.begin(), common.end());
    const std::string name = "layout" + std::to_string(number++);
    check_same(title(keys), trained(place, name, keys), base);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(float32_layouts_are_bitwise_equal) {
  check_all_layouts(Workplace(), {});
}

BOOST_AUTO_TEST_CASE(bfloat16_layouts_are_bitwise_equal) {
  check_all_layouts(Workplace(), {{"model.dtype", "\"bfloat16\""}});
}

BOOST_AUTO_TEST_CASE(tied_embeddings_are_bitwise_equal) {
  check_all_layouts(Workplace(), {{"model.tie_word_embeddings", "true"}});
}

BOOST_AUTO_TEST_CASE(bfloat16_is_close_to_float32) {
  const Workplace place;
  check_close("bfloat16", trained(place, "bf16", {{"model.dtype", "\"bfloat16\""}}),
              trained(place, "f32", {}), 2e-2);
}

BOOST_AUTO_TEST_CASE(replicas_compute_the_same_within_the_order_of_one_sum) {
  const Workplace place;
  const auto base = trained(place, "base", {});
  const auto two = trained(place, "dp2", {{"mesh.dp", "2"}});
  check_close("dp = 2", two, base, 1e-6);
  check_same("dp = 2, pp = 2", trained(place, "dp2pp2", {{"mesh.dp", "2"}, {"mesh.pp", "2"}}), two);
  const Keys tied{{"mesh.dp", "2"}, {"model.tie_word_embeddings", "true"}};
  Keys cut = tied;
  cut["mesh.pp"] = "2";
  check_same("tied, dp = 2, pp = 2", trained(place, "tied22", cut), trained(place, "tied21", tied));
}

BOOST_AUTO_TEST_CASE(shuffled_data_is_a_function_of_the_seed) {
  const Workplace place;
  const auto a = trained(place, "a", {{"data.shuffle", "true"}});
  check_same("again, pp = 2", trained(place, "b", {{"data.shuffle", "true"}, {"mesh.pp", "2"}}), a);
  BOOST_TEST(
      (trained(place, "c", {{"data.shuffle", "true"}, {"run.seed", "99"}}).at(1) != a.at(1)));
}

BOOST_AUTO_TEST_CASE(evaluation_leaves_training_untouched) {
  const Workplace place;
  const auto base = trained(place, "base", {});
  const std::string corpus = "[\"" + (place.dir / "corpus.txt").string() + "\"]";
  for (const char* pp : {"1", "3"}) {
    const std::string name = std::string("eval") + pp;
    check_same(
        name,
        trained(
            place, name,
            {{"mesh.pp", pp}, {"eval.interval", "2"}, {"eval.files", corpus}, {"eval.steps", "2"}}),
        base);
  }
  const auto evals = [&](const std::string& name) {
    std::string lines, text = content_of(place.dir / ("runs/" + name + "/metrics.jsonl"));
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
      if (line.find("eval_loss") != std::string::npos) lines += line + "\n";
    return lines;
  };
  BOOST_TEST(!evals("eval1").empty());
  BOOST_TEST(evals("eval1") == evals("eval3"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
