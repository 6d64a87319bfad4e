#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/seed.h"
#include "tests/support/trained_run.h"

// Samples launched runs of every kind of model, mesh, recompute and dropout. TROUPE_POINTS is the
// number of samples, drawn from a printed seed; 0 stands for all.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(matrix_test)

namespace {

struct Point {
  std::string kind;
  int tp = 1, pp = 1, dp = 1;
  bool sequence_parallel = false;
  std::string recompute = "none";
  bool dropout = false;
  int kv_heads = 2;  ///< of llama: fewer than four shards, or as many as three

  std::string name() const {
    return kind + "-tp" + std::to_string(tp) + (sequence_parallel ? "s" : "") + "-pp" +
           std::to_string(pp) + "-dp" + std::to_string(dp) + "-" + recompute +
           (dropout ? "-dropout" : "") + "-kv" + std::to_string(kv_heads);
  }
};

std::vector<Point> all_points() {
  std::vector<Point> points;
  for (const char* kind : {"llama", "gpt2"})
    for (const int tp : {1, 2, 3, 4})
      for (const int pp : {1, 2, 3})
        for (const int dp : {1, 2})
          for (const bool sequence_parallel : {false, true})
            for (const char* recompute : {"none", "selective", "output", "full"})
              for (const bool dropout : {false, true})
                if (tp > 1 || !sequence_parallel)
                  points.push_back(
                      {kind, tp, pp, dp, sequence_parallel, recompute, dropout, tp == 3 ? 3 : 2});
  return points;
}

Keys keys_of(const Point& point) {
  const auto text = [](int number) { return std::to_string(number); };
  Keys keys{{"run.max_steps", "20"},
            {"model.kind", '"' + point.kind + '"'},
            {"model.hidden_size", "48"},
            {"model.intermediate_size", "72"},
            {"model.num_attention_heads", "12"},
            {"model.num_key_value_heads", ""},
            {"model.tie_word_embeddings", "true"},
            {"batch.seq_len", "24"},
            {"mesh.tp", text(point.tp)},
            {"mesh.pp", text(point.pp)},
            {"mesh.dp", text(point.dp)},
            {"mesh.sequence_parallel", point.sequence_parallel ? "true" : "false"},
            {"recompute.mode", '"' + point.recompute + '"'}};
  if (point.kind == "llama") keys["model.num_key_value_heads"] = text(point.kv_heads);
  if (point.dropout) keys["model.hidden_dropout"] = keys["model.attention_dropout"] = "0.1";
  return keys;
}

/// Trains points, each once.
class Runs {
 public:
  const Numbers& of(const Point& point) {
    const auto [found, fresh] = numbers_.try_emplace(point.name());
    if (!fresh) return found->second;
    return found->second = trained(place_, point.name(), keys_of(point));
  }

 private:
  Workplace place_;
  std::map<std::string, Numbers> numbers_;
};

/// The same model in one process.
Point whole(const Point& point) {
  return {.kind = point.kind, .dropout = point.dropout, .kv_heads = point.kv_heads};
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_mesh_trains_as_one_process_does) {
  std::vector<Point> points = all_points();
  const auto count = static_cast<std::size_t>(number_of("TROUPE_POINTS", 6));
  std::mt19937_64 rng(fresh_seed());
  std::shuffle(points.begin(), points.end(), rng);
  if (count > 0) points.resize(count);
  Runs runs;
  for (const Point& point : points) {
    const Numbers& numbers = runs.of(point);
    // Stages and recompute change no bit; shards and replicas add in another order.
    Point one_stage = point;
    one_stage.pp = 1;
    one_stage.recompute = "none";
    BOOST_TEST((numbers == runs.of(one_stage)), point.name() << " differs from one stage");
    BOOST_TEST(numbers.size() == 20u);
    const double off = distance(numbers, runs.of(whole(point)));
    BOOST_TEST(off < 2e-6, point.name() << " differs from one process by " << off);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
