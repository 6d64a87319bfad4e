#include <limits>

#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(loss_test)

namespace {

std::vector<std::int32_t> targets_for(std::int64_t rows, std::int64_t vocabulary) {
  std::vector<std::int32_t> targets;
  for (std::int64_t t = 0; t < rows; ++t) {
    targets.push_back(static_cast<std::int32_t>(t * 7919 % vocabulary));
  }
  return targets;
}

BOOST_AUTO_TEST_CASE(agrees_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t rows : {1, 5, 65, 300}) {
      for (const std::int64_t vocabulary : {1, 16, 97, 1000}) {
        BOOST_TEST_CONTEXT(rows << " rows, vocabulary " << vocabulary) {
          const auto targets = targets_for(rows, vocabulary);
          const Tensor logits = host.normal(DType::f32, {rows, vocabulary}, "logits", 5);
          const reference::CrossEntropy expected = reference::cross_entropy(
              Host::read(logits), targets, static_cast<std::size_t>(vocabulary), 0.125);
          const Tensor ids = host.ids(targets), dlogits = host.output(dtype, {rows, vocabulary});
          const double loss = host.cross_entropy(logits, ids, 0.125f, dlogits);
          BOOST_TEST(std::abs(loss - expected.loss) <= 2e-7 * std::abs(expected.loss));
          check_near(dlogits, expected.dlogits, 3 * tolerance_of(dtype));
          BOOST_TEST(host.cross_entropy(logits, ids, 0.125f) == loss);
          if (dtype == DType::f32) {
            host.cross_entropy(logits, ids, 0.125f, logits);
            BOOST_TEST(same_bits(logits, dlogits));
          }
        }
      }
    }
  });
}

// A row of 12,000 float32 fits the 48 KiB of shared memory that a GPU's block has unasked, but not
// beside the kernel's static arrays. The bound is that of a sum of as many float32 on a CPU.
BOOST_AUTO_TEST_CASE(a_row_may_nearly_fill_the_shared_memory_of_a_block) {
  for_each_setup([](DType dtype, Host& host) {
    constexpr std::int64_t kVocabulary = 12'000;
    const auto targets = targets_for(2, kVocabulary);
    const Tensor logits = host.normal(DType::f32, {2, kVocabulary}, "logits", 5);
    const Tensor dlogits = host.output(dtype, {2, kVocabulary});
    const reference::CrossEntropy expected =
        reference::cross_entropy(Host::read(logits), targets, kVocabulary, 0.125);
    const double loss = host.cross_entropy(logits, host.ids(targets), 0.125f, dlogits);
    BOOST_TEST(std::abs(loss - expected.loss) <= 2e-6 * std::abs(expected.loss));
    check_near(dlogits, expected.dlogits, 2e-5 + 3 * tolerance_of(dtype));
  });
}

BOOST_AUTO_TEST_CASE(each_token_has_its_loss) {
  for_each_setup([](DType, Host& host) {
    for (const std::int64_t vocabulary : {5, 16, 300}) {
      const std::vector<std::int32_t> targets{4, kNoTarget, 0, 2, kNoTarget, 1, 3};
      const auto rows = static_cast<std::int64_t>(targets.size());
      const Tensor logits = host.normal(DType::f32, {rows, vocabulary}, "logits", 5);
      const Tensor token_losses = host.output(DType::f64, {rows});
      const auto loss_of = [&](const Tensor& each) {
        return host.number_of([&](const Tensor& loss) {
          host.ops().cross_entropy(host.stream(), logits, host.ids(targets), 1, loss, {}, each);
        });
      };
      BOOST_TEST(loss_of(token_losses) == loss_of({}));
      const Values values = Host::read(logits), losses = Host::read(token_losses);
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const auto row = values.begin() + static_cast<std::ptrdiff_t>(t) * vocabulary;
        const double expected =
            targets[t] == kNoTarget
                ? 0
                : reference::cross_entropy(Values(row, row + vocabulary), {targets[t]},
                                           static_cast<std::size_t>(vocabulary), 1)
                      .loss;
        BOOST_TEST(std::abs(losses[t] - expected) <= 2e-7 * (1 + std::abs(expected)));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_token_without_a_target_has_no_loss_and_no_gradient) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t vocabulary : {5, 16, 300}) {
      const Tensor logits = host.normal(DType::f32, {3, vocabulary}, "logits");
      const Tensor kept = host.output(dtype, {3, vocabulary});
      const double loss = host.cross_entropy(logits, host.ids({4, 1, 2}), 2, kept);
      Values values = Host::read(logits), wide = values;
      const auto v = static_cast<std::size_t>(vocabulary);
      wide.insert(wide.begin() + std::ssize(values) / 3, v,
                  std::numeric_limits<double>::infinity());
      const Tensor padded = host.of(DType::f32, {4, vocabulary}, wide);
      const Tensor dlogits = host.output(dtype, {4, vocabulary});
      // The order of the sum depends on the number of rows.
      BOOST_TEST(host.cross_entropy(padded, host.ids({4, kNoTarget, 1, 2}), 2, dlogits) == loss,
                 boost::test_tools::tolerance(1e-15));
      Values expected = Host::read(kept);
      expected.insert(expected.begin() + std::ssize(values) / 3, v, 0.0);
      BOOST_TEST((Host::read(dlogits) == expected));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_loss_in_parts_is_that_of_one_call) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t rows : {1, 30, 300}) {
      constexpr std::int64_t kVocabulary = 21;
      const std::vector<std::int32_t> targets = targets_for(rows, kVocabulary);
      const Tensor logits = host.normal(DType::f32, {rows, kVocabulary}, "logits");
      const Tensor whole = host.output(dtype, {rows, kVocabulary});
      const double loss = host.cross_entropy(logits, host.ids(targets), 0.5f, whole);
      const Tensor gradient = host.output(dtype, {rows, kVocabulary});
      const Tensor losses = host.output(DType::f64, {rows});
      const auto part_of = [](const Tensor& x, std::int64_t first, std::int64_t count) {
        const std::int64_t width = x.num_elements() / x.shape[0];
        const auto offset = static_cast<std::size_t>(first * width) * size_of(x.dtype);
        return Tensor{x.as<std::byte>() + offset, x.dtype,
                      width == 1 ? Shape{count} : Shape{count, width}};
      };
      for (std::int64_t first = 0; first < rows; first += 7) {
        const std::int64_t count = std::min<std::int64_t>(7, rows - first);
        const auto ids = std::span(targets).subspan(static_cast<std::size_t>(first),
                                                    static_cast<std::size_t>(count));
        host.number_of([&](const Tensor& unread) {
          host.ops().cross_entropy(host.stream(), part_of(logits, first, count),
                                   host.ids({ids.begin(), ids.end()}), 0.5f, unread,
                                   part_of(gradient, first, count), part_of(losses, first, count));
        });
      }
      BOOST_TEST(same_bits(gradient, whole));
      BOOST_TEST(host.number_of([&](const Tensor& sum) {
        host.ops().sum_losses(host.stream(), losses, sum);
      }) == loss);
    }
  });
}

BOOST_AUTO_TEST_CASE(sums_the_rows_alike_for_any_number_of_threads) {
  Host one(1), two(2);
  const auto targets = targets_for(700, 33);
  const double first =
      one.cross_entropy(one.normal(DType::f32, {700, 33}, "logits"), one.ids(targets), 1);
  const double second =
      two.cross_entropy(two.normal(DType::f32, {700, 33}, "logits"), two.ids(targets), 1);
  BOOST_TEST(first == second);
}

BOOST_AUTO_TEST_CASE(a_certain_target_has_a_tiny_exact_loss) {
  Host host(1);
  Values values(20, 0.0);
  values[3] = 12;
  const Tensor logits = host.of(DType::f32, {1, 20}, values);
  const Tensor dlogits = host.output(DType::f32, {1, 20});
  const double loss = host.cross_entropy(logits, host.ids({3}), 1, dlogits);
  const double expected = std::log1p(19 * std::exp(-12.0));
  BOOST_TEST(std::abs(loss - expected) < 1e-7);
  BOOST_TEST(Host::read(dlogits)[3] == std::expm1(-expected), boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(huge_logits_do_not_overflow) {
  Host host(1);
  Values values(40, 0.0);
  values[0] = 3e38;
  values[39] = -3e38;
  const Tensor logits = host.of(DType::f32, {1, 40}, values);
  BOOST_TEST(host.cross_entropy(logits, host.ids({0}), 1) == 0.0);
}

BOOST_AUTO_TEST_CASE(nan_and_infinity_reach_the_loss) {
  constexpr double kBad[] = {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()};
  for_each_setup([&](DType dtype, Host& host) {
    for (const double bad : kBad) {
      for (const std::size_t at : {0u, 15u, 16u, 39u}) {
        Values values(2 * 40, 0.0);
        values[at] = bad;
        const Tensor logits = host.of(DType::f32, {2, 40}, values);
        const Tensor d = host.output(dtype, {2, 40});
        const double loss = host.cross_entropy(logits, host.ids({7, 7}), 1, d);
        BOOST_TEST(!std::isfinite(loss));
        BOOST_TEST(std::isnan(Host::read(d)[at]));
        BOOST_TEST(!std::isnan(Host::read(d)[40]));
      }
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
