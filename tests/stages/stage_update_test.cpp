// Compares several updates of a stage with AdamW in double precision.

#include <boost/test/unit_test.hpp>

#include "tests/support/pipeline.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(stage_update_test)

using namespace troupe;
using namespace troupe::test;

namespace {

/// One element under the definition of torch.optim.AdamW.
struct Element {
  double w = 0, m = 0, v = 0;
  void update(const stages::OptimizerConfig& c, double lr, std::int64_t step, double g,
              bool decays) {
    if (decays) w -= lr * c.weight_decay * w;
    m = c.beta1 * m + (1 - c.beta1) * g;
    v = c.beta2 * v + (1 - c.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(c.beta1, static_cast<double>(step)));
    const double v_hat = v / (1 - std::pow(c.beta2, static_cast<double>(step)));
    w -= lr * m_hat / (std::sqrt(v_hat) + c.eps);
  }
};

void compare_updates(bool decay_all) {
  const auto device = test::make_test_device();
  const stages::ModelConfig model = {.hidden_size = 12,
                                     .intermediate_size = 20,
                                     .num_hidden_layers = 2,
                                     .num_attention_heads = 2,
                                     .num_key_value_heads = 1,
                                     .head_dim = 6,
                                     .vocab_size = 17,
                                     .initializer_range = 0.2};
  Pipeline pipeline(
      {.model = model, .layers_of_chunk = {2}, .stage_of_chunk = {0}, .decay_all = decay_all},
      *device, 5);
  const stages::OptimizerConfig config = {.lr = 0.02,
                                          .beta1 = 0.9,
                                          .beta2 = 0.95,
                                          .eps = 1e-8,
                                          .weight_decay = 0.3,
                                          .clip = 0.3,
                                          .warmup_steps = 3};
  const auto parameters = pipeline.stages().front()->parameters();
  std::vector<std::vector<Element>> expected;
  for (const auto& p : parameters) {
    auto& elements = expected.emplace_back();
    for (std::int64_t i = 0; i < p.weight.num_elements(); ++i) {
      elements.push_back({.w = test::opened(p.weight).as<float>()[i]});
    }
  }
  for (int step = 1; step <= 6; ++step) {
    const StepResult result =
        pipeline.step(config, step, {random_tokens(8, 17, static_cast<std::uint64_t>(step))});
    const double factor = clip_factor(config, result.norm);
    BOOST_TEST(factor < 1.0);
    double largest = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const bool decays = decay_all || parameters[p].weight.shape.rank() == 2;
      for (std::size_t i = 0; i < expected[p].size(); ++i) {
        Element& e = expected[p][i];
        const double g = test::opened(parameters[p].gradient).as<float>()[i] * factor;
        e.update(config, learning_rate(config, step), step, g, decays);
        largest =
            std::max(largest, std::abs(e.w - test::opened(parameters[p].weight).as<float>()[i]));
      }
    }
    BOOST_TEST(largest < 2e-6, "step " << step << ": " << largest);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(updates_are_adamw_with_decay_of_matrices) {
  compare_updates(false);
}

BOOST_AUTO_TEST_CASE(updates_are_adamw_with_decay_of_all) {
  compare_updates(true);
}

BOOST_AUTO_TEST_CASE(the_loss_falls_on_a_repeated_batch) {
  for (const auto dtype : {tensor::DType::f32, tensor::DType::bf16}) {
    const auto device = test::make_test_device();
    const stages::ModelConfig model = {.hidden_size = 32,
                                       .intermediate_size = 48,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 2,
                                       .num_key_value_heads = 2,
                                       .head_dim = 16,
                                       .vocab_size = 17,
                                       .dtype = dtype};
    Pipeline pipeline(
        {.model = model, .layers_of_chunk = {2}, .stage_of_chunk = {0}, .seq_len = 32}, *device, 5);
    const std::vector<Tokens> batch = {random_tokens(32, 17, 1)};
    double first = 0;
    double last = 0;
    for (int step = 1; step <= 40; ++step) {
      last = pipeline.step({.lr = 1e-2}, step, batch).losses.front() / 32;
      if (step == 1) first = last;
    }
    BOOST_TEST(std::abs(first - std::log(17.0)) < 0.2, first);
    BOOST_TEST(last < 0.3 * first, first << " -> " << last);
  }
}

BOOST_AUTO_TEST_SUITE_END()
