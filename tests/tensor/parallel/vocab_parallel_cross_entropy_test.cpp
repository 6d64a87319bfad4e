#include "tensor/parallel/vocab_parallel_cross_entropy.h"

#include <limits>

#include "tensor/errors/error.h"
#include "tests/tensor/shards.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(vocab_parallel_cross_entropy_test)

namespace {

/// A loss and its numbers; logits[tokens, vocabulary] hold padding from column `classes` on.
struct Case {
  std::vector<std::int32_t> targets;
  std::int64_t vocabulary = 0, classes = 0;
  Values logits;
  CrossEntropyOptions options{};
  float scale = 1;
  DType dtype = DType::f32;  // of the gradient

  std::int64_t tokens() const { return static_cast<std::int64_t>(targets.size()); }
};

struct Shard {
  double loss = 0;
  Values dlogits;
  std::map<std::string, Traffic> traffic;
};

Shard run(Host& host, const TensorParallel& parallel, const Case& c) {
  VocabParallelCrossEntropy layer(
      host.device(), {.tokens = c.tokens(), .vocabulary = c.vocabulary, .classes = c.classes},
      parallel, c.options);
  const std::int64_t width = layer.range().size;
  const Tensor logits = tensor_of(
      host, DType::f32, {c.tokens(), width},
      columns_of(c.logits, static_cast<std::size_t>(c.vocabulary),
                 static_cast<std::size_t>(layer.range().first), static_cast<std::size_t>(width)));
  // In place where that is possible.
  const Tensor dlogits =
      c.dtype == DType::f32 ? logits : host.zeros(DType::bf16, {c.tokens(), width});
  const CrossEntropyScratch scratch{
      .max = host.zeros(DType::f32, {c.tokens()}),
      .sums = host.zeros(DType::f32, {layer.sums_rows(), c.tokens()})};
  const double loss = host.number_of([&](const Tensor& sum) {
    layer.loss(host.stream(), logits, host.ids(c.targets), scratch, c.scale, sum, dlogits);
  });
  return {.loss = loss, .dlogits = Host::read(dlogits)};
}

std::vector<Shard> run_all(int size, Moves moves, const Case& c) {
  return on_shards(size, moves, [&](Host& host, ThreadGroup& group) {
    const TensorParallelGroups groups{.forward = &group, .backward = &group};
    Shard shard = run(host, shards_of(groups), c);
    shard.traffic = group.traffic();
    return shard;
  });
}

Values gradient_of(const std::vector<Shard>& shards, const Case& c) {
  return joined(each(shards, &Shard::dlogits), c.targets.size());
}

/// The whole loss in double precision, from the definition: the target has probability 1 - alpha,
/// and every other class alpha / (K - 1).
reference::CrossEntropy expected_of(const Case& c) {
  reference::CrossEntropy result{0, Values(c.logits.size())};
  const auto classes = static_cast<std::size_t>(c.classes);
  const double alpha = c.options.label_smoothing;
  for (std::size_t t = 0; t < c.targets.size(); ++t) {
    if (c.targets[t] == c.options.ignored) continue;
    const double* row = &c.logits[t * static_cast<std::size_t>(c.vocabulary)];
    const double max = *std::max_element(row, row + classes);
    double sum = 0;
    for (std::size_t v = 0; v < classes; ++v) sum += std::exp(row[v] - max);
    for (std::size_t v = 0; v < classes; ++v) {
      const double log_p = row[v] - max - std::log(sum);
      const bool is_target = v == static_cast<std::size_t>(c.targets[t]);
      const double wanted =
          is_target ? 1 - alpha : (classes > 1 ? alpha / static_cast<double>(classes - 1) : 0);
      if (wanted > 0) result.loss -= wanted * log_p;
      result.dlogits[t * static_cast<std::size_t>(c.vocabulary) + v] =
          (std::exp(log_p) - wanted) * c.scale;
    }
  }
  return result;
}

/// Logits 1, 2, 3, 4 with the target 2: published numbers of Megatron's loss.
Case golden(double label_smoothing) {
  return {.targets = {2},
          .vocabulary = 4,
          .classes = 4,
          .logits = {1, 2, 3, 4},
          .options = {.label_smoothing = label_smoothing}};
}

BOOST_AUTO_TEST_CASE(agrees_with_published_numbers) {
  for (const int size : {1, 2, 4}) {
    const auto plain = run_all(size, Moves::at_call, golden(0));
    const auto smooth = run_all(size, Moves::at_wait, golden(0.1));
    for (const Shard& shard : plain) BOOST_TEST(std::abs(shard.loss - 1.440190) < 1e-6);
    // With the number of classes of one shard, two shards would have 1.740190 and 1.340190.
    for (const Shard& shard : smooth) BOOST_TEST(std::abs(shard.loss - 1.506856) < 1e-6);
    check_near(gradient_of(plain, golden(0)), {0.032059, 0.087144, -0.763117, 0.643914}, 1e-6);
    check_near(gradient_of(smooth, golden(0)), {-0.001275, 0.053811, -0.663117, 0.610581}, 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(an_ignored_target_has_neither_loss_nor_gradient) {
  Case c = golden(0.1);
  c.targets = {-100};
  for (const Shard& shard : run_all(2, Moves::at_call, c)) {
    BOOST_TEST(shard.loss == 0);  // and not the log of the sum, 0.440190
    BOOST_TEST(shard.dlogits == Values(2));
  }
  c.targets = {7};
  c.options.ignored = 7;
  BOOST_TEST(run_all(4, Moves::at_call, c).back().loss == 0);
}

Case random_case(std::int64_t classes, double label_smoothing, DType dtype) {
  Case c{.targets = {},
         .vocabulary = 24,
         .classes = classes,
         .logits = normal_values(DType::f32, 33 * 24, "logits"),
         .options = {.label_smoothing = label_smoothing},
         .scale = 0.125f,
         .dtype = dtype};
  for (double& x : c.logits) x *= 8;
  for (int t = 0; t < 33; ++t)
    c.targets.push_back(t % 7 == 3 ? -100 : static_cast<std::int32_t>(t * 31 % classes));
  return c;
}

// 17 classes leave the last of four shards with nothing but padding.
BOOST_AUTO_TEST_CASE(shards_compute_the_loss_of_the_whole_vocabulary) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t classes : {24, 21, 17, 2}) {
      for (const double label_smoothing : {0.0, 0.1}) {
        const Case c = random_case(classes, label_smoothing, dtype);
        const reference::CrossEntropy expected = expected_of(c);
        for_each_group([&](int size, Moves moves) {
          const auto shards = run_all(size, moves, c);
          BOOST_TEST(std::abs(shards[0].loss - expected.loss) <= 1e-6 * expected.loss);
          for (const Shard& shard : shards) BOOST_TEST(shard.loss == shards[0].loss);
          check_near(gradient_of(shards, c), expected.dlogits, 3 * tolerance_of(dtype));
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(padding_counts_nothing_whatever_it_holds) {
  const Case c = random_case(21, 0.1, DType::f32);
  Case other = c;
  for (std::size_t t = 0; t < c.targets.size(); ++t)
    for (std::size_t v = 21; v < 24; ++v)
      other.logits[t * 24 + v] = v == 22 ? std::numeric_limits<double>::quiet_NaN() : 1e30;
  const auto a = run_all(2, Moves::at_call, c), b = run_all(2, Moves::at_call, other);
  BOOST_TEST(a[0].loss == b[0].loss);
  BOOST_TEST(gradient_of(a, c) == gradient_of(b, c));
}

BOOST_AUTO_TEST_CASE(gives_the_same_bits_twice_and_for_any_number_of_threads) {
  const Case c = random_case(21, 0.1, DType::f32);
  const auto first = run_all(3, Moves::at_call, c), second = run_all(3, Moves::at_wait, c);
  BOOST_TEST(first[0].loss == second[0].loss);
  BOOST_TEST(gradient_of(first, c) == gradient_of(second, c));
  Host one(1), two(2);
  const Shard narrow = run(one, {}, c), wide = run(two, {}, c);
  BOOST_TEST(narrow.loss == wide.loss);
  BOOST_TEST(narrow.dlogits == wide.dlogits);
}

BOOST_AUTO_TEST_CASE(kernels_agree_with_the_reference_on_every_processor) {
  for_each_setup([](DType dtype, Host& host) {
    const Case c = random_case(21, 0.1, dtype);
    const reference::CrossEntropy expected = expected_of(c);
    const Shard shard = run(host, {}, c);
    BOOST_TEST(std::abs(shard.loss - expected.loss) <= 1e-6 * expected.loss);
    check_near(shard.dlogits, expected.dlogits, 3 * tolerance_of(dtype));
  });
}

BOOST_AUTO_TEST_CASE(communicates_a_maximum_and_one_set_of_sums) {
  const auto calls = [](double label_smoothing) {
    return run_all(2, Moves::at_call, random_case(24, label_smoothing, DType::f32))[0].traffic;
  };
  BOOST_TEST((calls(0) == std::map<std::string, Traffic>{{"all-reduce", {2, 33 * 4 * 3}}}));
  BOOST_TEST((calls(0.1) == std::map<std::string, Traffic>{{"all-reduce", {2, 33 * 4 * 4}}}));
}

BOOST_AUTO_TEST_CASE(a_nan_is_not_hidden_from_any_shard) {
  Case c = random_case(24, 0, DType::f32);
  c.logits[5] = std::numeric_limits<double>::quiet_NaN();
  for (const Shard& shard : run_all(2, Moves::at_call, c)) {
    BOOST_TEST(std::isnan(shard.loss));
    BOOST_TEST(std::isnan(shard.dlogits[3]));
  }
}

BOOST_AUTO_TEST_CASE(a_certain_target_keeps_the_digits_of_its_gradient) {
  Case c{.targets = {3}, .vocabulary = 20, .classes = 20, .logits = Values(20)};
  c.logits[3] = 12;
  const auto shards = run_all(2, Moves::at_call, c);
  const double expected = std::log1p(19 * std::exp(-12.0));
  BOOST_TEST(std::abs(shards[0].loss - expected) < 1e-7);
  BOOST_TEST(shards[0].dlogits[3] == std::expm1(-expected), boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(refuses_a_smoothing_that_has_no_meaning) {
  Host host(1);
  const auto make = [&](std::int64_t classes, double label_smoothing) {
    VocabParallelCrossEntropy(host.device(), {.tokens = 1, .vocabulary = 4, .classes = classes}, {},
                              {.label_smoothing = label_smoothing});
  };
  const auto is_manifest = [](const Error& error) { return error.kind() == ErrorKind::manifest; };
  BOOST_CHECK_EXCEPTION(make(4, 1), Error, is_manifest);
  BOOST_CHECK_EXCEPTION(make(4, -0.1), Error, is_manifest);
  BOOST_CHECK_EXCEPTION(make(1, 0.1), Error, is_manifest);
  make(1, 0);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
