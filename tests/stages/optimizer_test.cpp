#include "stages/decoder/stage/optimizer.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "tensor/device/device.h"

BOOST_AUTO_TEST_SUITE(optimizer_test)

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

BOOST_AUTO_TEST_CASE(a_group_changes_what_it_names) {
  const troupe::tensor::AdamWStep step = adamw_step({.lr = 0.5, .weight_decay = 0.3}, 3, 0.25);
  const auto scaled = troupe::stages::step_of({.lr_scale = 0.5}, step);
  BOOST_TEST(scaled.lr == 0.25f);
  BOOST_TEST(scaled.weight_decay == 0.3f);
  BOOST_TEST(scaled.gradient_scale == 0.25f);
  BOOST_TEST(scaled.step == 3);
  const auto decayed = troupe::stages::step_of({.weight_decay = 0.0}, step);
  BOOST_TEST(decayed.lr == 0.5f);
  BOOST_TEST(decayed.weight_decay == 0.0f);
}

// torch.optim.AdamW (PyTorch 2.15, float64) gave these weights after four steps with the groups
// {}, {lr: 0.02 * 0.25} and {lr: 0.02 * 3, weight_decay: 0.5}; lr 0.02, betas (0.9, 0.95), eps
// 1e-8, weight_decay 0.1; gradients [0.1 k, -0.3, 0.2 / k] of step k.
BOOST_AUTO_TEST_CASE(groups_are_those_of_torch) {
  using troupe::tensor::Tensor;
  const std::vector<std::pair<troupe::stages::UpdateRule, std::array<float, 3>>> groups{
      {{}, {0.419379238f, -0.912263651f, 1.910872145f}},
      {{.lr_scale = 0.25}, {0.479798684f, -0.978016495f, 1.977665877f}},
      {{.lr_scale = 3, .weight_decay = 0.5}, {0.222382613f, -0.655878438f, 1.560535573f}}};
  const auto device = troupe::tensor::make_cpu_device(1);
  const auto stream = device->make_stream();
  for (const auto& [rule, expected] : groups) {
    std::array<float, 3> w{0.5f, -1, 2}, m{}, v{};
    const auto tensor = [](std::array<float, 3>& x) {
      return Tensor{x.data(), troupe::tensor::DType::f32, {3}};
    };
    for (int k = 1; k <= 4; ++k) {
      const auto number = static_cast<float>(k);
      std::array<float, 3> gradient{0.1f * number, -0.3f, 0.2f / number};
      const OptimizerConfig config{.lr = 0.02, .weight_decay = 0.1};
      const troupe::tensor::AdamWUpdate update{
          troupe::stages::step_of(rule, adamw_step(config, k, 1)),
          tensor(gradient),
          tensor(w),
          tensor(m),
          tensor(v),
          tensor(w),
          tensor(m),
          tensor(v)};
      device->ops().adamw(*stream, {&update, 1});
      stream->synchronize();
    }
    for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(std::abs(w[i] - expected[i]) < 1e-6f);
  }
}

BOOST_AUTO_TEST_SUITE_END()
