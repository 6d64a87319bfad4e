#include <numeric>

#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(vocab_ops_test)

namespace {

/// Logits of `classes` classes on shards of `width` columns each, the last ones padding.
struct Case {
  std::int64_t rows = 0, width = 0, shards = 0, classes = 0;
  double smoothing = 0;

  std::vector<std::int32_t> targets() const {
    std::vector<std::int32_t> targets;
    for (std::int64_t t = 0; t < rows; ++t)
      targets.push_back(t % 5 == 2 ? -100 : static_cast<std::int32_t>(t * 7919 % classes));
    return targets;
  }
};

struct Result {
  double loss = 0;
  Values dlogits;  // [rows, classes]
};

/// From the definition: (1 - s) (-log p[target]) + s (-mean of log p).
Result reference_of(const Case& c, const Values& logits, double scale) {
  const auto classes = static_cast<std::size_t>(c.classes);
  Result result{0, Values(logits.size())};
  const auto targets = c.targets();
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] == -100) continue;
    const double* row = &logits[t * classes];
    const double max = *std::max_element(row, row + classes);
    double sum = 0;
    for (std::size_t v = 0; v < classes; ++v) sum += std::exp(row[v] - max);
    for (std::size_t v = 0; v < classes; ++v) {
      const double log_p = row[v] - max - std::log(sum);
      const double wanted = (v == static_cast<std::size_t>(targets[t]) ? 1 - c.smoothing : 0) +
                            c.smoothing / static_cast<double>(c.classes);
      result.loss -= wanted * log_p;
      result.dlogits[t * classes + v] = (std::exp(log_p) - wanted) * scale;
    }
  }
  return result;
}

/// A shard's tensors; what would be reduced over the shards is reduced on the host.
struct Shard {
  VocabColumns columns;
  Tensor logits, max, sums;
};

Shard shard_of(Host& host, const Case& c, std::int64_t i, const Values& logits) {
  const std::int64_t first = i * c.width;
  const std::int64_t valid = std::clamp<std::int64_t>(c.classes - first, 0, c.width);
  Values columns(static_cast<std::size_t>(c.rows * c.width), 1e30);  // padding is not read
  for (std::int64_t t = 0; t < c.rows; ++t) {
    for (std::int64_t v = 0; v < valid; ++v) {
      columns[static_cast<std::size_t>(t * c.width + v)] =
          logits[static_cast<std::size_t>(t * c.classes + first + v)];
    }
  }
  const std::int64_t sums = c.smoothing > 0 ? 3 : 2;
  return {.columns = {.first = first, .valid = valid},
          .logits = host.of(DType::f32, {c.rows, c.width}, columns),
          .max = host.output(DType::f32, {c.rows}),
          .sums = host.output(DType::f32, {sums, c.rows})};
}

/// Replaces a tensor of every shard by their maximum or sum.
template <typename Reduce>
void reduce(const std::vector<Shard>& shards, Tensor Shard::*part, const Reduce& reduction) {
  Values all = Host::read(shards[0].*part);
  for (std::size_t i = 1; i < shards.size(); ++i) {
    const Values other = Host::read(shards[i].*part);
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = reduction(all[k], other[k]);
  }
  for (const Shard& shard : shards) Host::write(all, shard.*part);
}

void check(Host& host, DType dtype, const Case& c) {
  const Values logits = Host::read(host.normal(DType::f32, {c.rows, c.classes}, "logits", 4));
  const Result expected = reference_of(c, logits, 0.25);
  const Tensor targets = host.ids(c.targets());
  std::vector<Shard> shards;
  for (std::int64_t i = 0; i < c.shards; ++i) shards.push_back(shard_of(host, c, i, logits));
  for (const Shard& s : shards)
    host.ops().vocab_max(host.stream(), s.logits, s.columns.valid, s.max);
  reduce(shards, &Shard::max, [](double a, double b) { return std::max(a, b); });
  for (const Shard& s : shards)
    host.ops().vocab_sums(host.stream(), s.logits, s.columns, targets, s.max, s.sums);
  reduce(shards, &Shard::sums, [](double a, double b) { return a + b; });
  const VocabLoss options{.classes = c.classes,
                          .smoothing = static_cast<float>(c.smoothing),
                          .ignored = -100,
                          .scale = 0.25f};
  Values gradient(expected.dlogits.size());
  for (const Shard& s : shards) {
    const auto loss_of = [&](const Tensor& dlogits) {
      return host.number_of([&](const Tensor& sum) {
        host.ops().vocab_loss(host.stream(), s.logits, s.columns, targets, s.sums, options, sum,
                              dlogits);
      });
    };
    const double alone = loss_of({});
    const Tensor token_losses = host.output(DType::f64, {c.rows});
    BOOST_TEST(host.number_of([&](const Tensor& sum) {
      host.ops().vocab_loss(host.stream(), s.logits, s.columns, targets, s.sums, options, sum, {},
                            token_losses);
    }) == alone);
    const Values losses = Host::read(token_losses);
    BOOST_TEST(std::abs(std::accumulate(losses.begin(), losses.end(), 0.0) - expected.loss) <=
               1e-6 * expected.loss);
    for (std::size_t t = 0; t < losses.size(); ++t)
      BOOST_TEST((losses[t] == 0) == (c.targets()[t] == -100));
    const bool in_place = dtype == DType::f32;
    const Tensor dlogits = in_place ? s.logits : host.output(dtype, s.logits.shape);
    BOOST_TEST(loss_of(dlogits) == alone);
    BOOST_TEST(std::abs(alone - expected.loss) <= 1e-6 * expected.loss);
    const Values columns = Host::read(dlogits);
    for (std::int64_t t = 0; t < c.rows; ++t) {
      for (std::int64_t v = 0; v < c.width; ++v) {
        const double d = columns[static_cast<std::size_t>(t * c.width + v)];
        if (v >= s.columns.valid) {
          BOOST_TEST(d == 0);
        } else {
          gradient[static_cast<std::size_t>(t * c.classes + s.columns.first + v)] = d;
        }
      }
    }
  }
  check_near(gradient, expected.dlogits, 3 * tolerance_of(dtype));
}

// The last shard of 17 classes on three times 8 columns has one class; of four shards, none.
BOOST_AUTO_TEST_CASE(shards_give_the_loss_of_the_whole) {
  for_each_setup([](DType dtype, Host& host) {
    for (const double smoothing : {0.0, 0.1}) {
      check(host, dtype,
            {.rows = 7, .width = 8, .shards = 3, .classes = 17, .smoothing = smoothing});
      check(host, dtype,
            {.rows = 7, .width = 8, .shards = 4, .classes = 17, .smoothing = smoothing});
      check(host, dtype,
            {.rows = 1, .width = 97, .shards = 2, .classes = 190, .smoothing = smoothing});
      check(host, dtype,
            {.rows = 3, .width = 2600, .shards = 2, .classes = 5190, .smoothing = smoothing});
    }
  });
}

BOOST_AUTO_TEST_CASE(no_class_has_the_maximum_of_nothing) {
  for_each_setup([](DType, Host& host) {
    const Tensor max = host.output(DType::f32, {2});
    host.ops().vocab_max(host.stream(), host.normal(DType::f32, {2, 40}, "logits"), 0, max);
    for (const double x : Host::read(max))
      BOOST_TEST(x == -std::numeric_limits<double>::infinity());
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
