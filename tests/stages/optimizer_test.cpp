#include "stages/optimizer.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

using namespace troupe::stages;

namespace {

/// Compares the learning rates of steps 1 ... rates.size().
void expect_rates(const OptimizerConfig& config, const std::vector<double>& rates) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i + 1);
    BOOST_TEST(std::abs(learning_rate(config, step) - rates[i]) < 1e-12,
               "step " << step << ": " << learning_rate(config, step) << " want " << rates[i]);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(constant_after_warm_up) {
  expect_rates({.lr = 0.8, .warmup_steps = 4}, {0.2, 0.4, 0.6, 0.8, 0.8, 0.8});
  expect_rates({.lr = 0.8}, {0.8, 0.8});
}

BOOST_AUTO_TEST_CASE(linear_reaches_min_lr_and_stays) {
  expect_rates(
      {.lr = 1.0, .warmup_steps = 2, .decay = Decay::linear, .decay_steps = 4, .min_lr = 0.2},
      {0.5, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2});
}

BOOST_AUTO_TEST_CASE(cosine_reaches_min_lr_and_stays) {
  const double quarter = 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2;
  const double three_quarters = 0.1 + 0.9 * (1 - std::sqrt(0.5)) / 2;
  expect_rates(
      {.lr = 1.0, .warmup_steps = 1, .decay = Decay::cosine, .decay_steps = 4, .min_lr = 0.1},
      {1.0, quarter, 0.55, three_quarters, 0.1, 0.1});
}

BOOST_AUTO_TEST_CASE(wsd_decays_in_the_last_steps) {
  expect_rates({.lr = 1.0,
                .warmup_steps = 2,
                .decay = Decay::wsd,
                .decay_steps = 2,
                .min_lr = 0,
                .max_steps = 6},
               {0.5, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0});
}

BOOST_AUTO_TEST_CASE(a_decay_of_no_steps_falls_at_once) {
  expect_rates({.lr = 1.0, .warmup_steps = 2, .decay = Decay::linear, .min_lr = 0.1},
               {0.5, 1.0, 0.1, 0.1});
  expect_rates({.lr = 1.0, .decay = Decay::wsd, .min_lr = 0.1, .max_steps = 3}, {1.0, 1.0, 1.0});
}

BOOST_AUTO_TEST_CASE(clips_as_torch_does) {
  const OptimizerConfig config = {.clip = 1.0};
  BOOST_TEST(clip_factor(config, 0.0) == 1.0);
  BOOST_TEST(clip_factor(config, 0.5) == 1.0);
  BOOST_TEST(clip_factor(config, 1.0) == 1.0 / (1.0 + 1e-6));
  BOOST_TEST(clip_factor(config, 4.0) == 1.0 / (4.0 + 1e-6));
  BOOST_TEST(clip_factor({.clip = 0}, 1e9) == 1.0);
}

BOOST_AUTO_TEST_CASE(an_update_carries_its_numbers) {
  const OptimizerConfig config = {
      .lr = 0.5, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.3, .warmup_steps = 10};
  const troupe::tensor::AdamWStep step = adamw_step(config, 3, 0.25);
  BOOST_TEST(step.lr == 0.15f);
  BOOST_TEST(step.beta1 == 0.8f);
  BOOST_TEST(step.beta2 == 0.9f);
  BOOST_TEST(step.eps == 1e-6f);
  BOOST_TEST(step.weight_decay == 0.3f);
  BOOST_TEST(step.step == 3);
  BOOST_TEST(step.gradient_scale == 0.25f);
}
