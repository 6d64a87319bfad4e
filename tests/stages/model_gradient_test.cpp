// Losses, logits and gradients of a whole model against the double-precision reference.

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tensor/cpu/ops/random_fills.h"
#include "tests/support/families.h"
#include "tests/support/pipeline.h"
#include "tests/support/reference_models.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(model_gradient_test)

using namespace troupe;
using namespace troupe::test;

namespace {

struct Sizes {
  std::int64_t width, feed_forward, layers, heads, kv_heads, head, vocabulary;
};

struct Case {
  const char* name;
  Sizes sizes;
  stages::ModelConfig rest;  ///< what the model has beside its sizes
  std::int64_t micro;
  std::int64_t seq_len;

  stages::ModelConfig model() const {
    stages::ModelConfig model = rest;
    model.hidden_size = sizes.width;
    model.intermediate_size = sizes.feed_forward;
    model.num_hidden_layers = sizes.layers;
    model.num_attention_heads = sizes.heads;
    model.num_key_value_heads = sizes.kv_heads;
    model.head_dim = sizes.head;
    model.vocab_size = sizes.vocabulary;
    model.initializer_range = 0.15;  // larger than usual, so that every nonlinearity matters
    return model;
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

using tensor::RotaryType;

const std::vector<Case> kLlamaAndGpt2 = {
    {"plain", {32, 48, 2, 4, 4, 8, 50}, {}, 2, 16},
    {"grouped query, tied", {24, 40, 3, 6, 2, 4, 33}, {.tie_word_embeddings = true}, 3, 11},
    {"odd sizes, one kv head",
     {21, 37, 1, 3, 1, 10, 19},
     {.rms_norm_eps = 1e-3, .rotary = {.theta = 500}},
     1,
     70},
    {"biases of attention, yarn, head size 6",
     {32, 40, 2, 4, 2, 6, 29},
     {.rotary = {.type = RotaryType::yarn, .factor = 4, .original_max_position_embeddings = 8},
      .attention_bias = true},
     2,
     13},
    {"all biases, dynamic, tied",
     {24, 40, 2, 6, 2, 4, 33},
     {.rotary = {.type = RotaryType::dynamic, .factor = 3, .original_max_position_embeddings = 8},
      .attention_bias = true,
      .mlp_bias = true,
      .max_position_embeddings = 8,
      .tie_word_embeddings = true},
     3,
     11},
    {"biases of feed-forward, llama3",
     {32, 48, 2, 4, 4, 8, 50},
     {.rotary = {.type = RotaryType::llama3,
                 .theta = 500000,
                 .factor = 8,
                 .original_max_position_embeddings = 16},
      .mlp_bias = true},
     2,
     16},
    {"one token", {8, 8, 1, 1, 1, 8, 5}, {}, 1, 1},
    {"gpt2, tied, short samples",
     {32, 50, 3, 4, 4, 8, 33},
     {.kind = stages::ModelKind::gpt2, .max_position_embeddings = 20, .tie_word_embeddings = true},
     2,
     13},
    {"gpt2, odd sizes, untied",
     {21, 37, 2, 3, 3, 7, 19},
     {.kind = stages::ModelKind::gpt2, .layer_norm_epsilon = 1e-3, .max_position_embeddings = 70},
     1,
     70},
};

/// The families, each once.
std::vector<Case> all_cases() {
  std::vector<Case> all = kLlamaAndGpt2;
  for (const char* family : kFamilies) {
    Case c{family, {32, 48, 3, 4, 2, 8, 50}, {}, 2, 13};
    c.rest = as_family(c.model(), family);
    all.push_back(c);
  }
  return all;
}
const std::vector<Case> kCases = all_cases();

PipelineSpec whole(const Case& c) {
  return {.model = c.model(),
          .layers_of_chunk = {static_cast<int>(c.model().num_hidden_layers)},
          .stage_of_chunk = {0},
          .microbatches = 2,
          .micro = c.micro,
          .seq_len = c.seq_len};
}

std::vector<Tokens> batch_of(const Case& c) {
  return {random_tokens(c.micro * c.seq_len, c.model().vocab_size, 1),
          random_tokens(c.micro * c.seq_len, c.model().vocab_size, 2)};
}

/// Makes the weights of norms differ from those that change nothing, and biases from zero, so that
/// their place in the formulas shows.
void disturb_norms(stages::Stage& stage, const stages::ModelConfig& model) {
  const bool adds_one = traits_of(model.kind).norm_form == stages::NormForm::one_plus;
  for (const stages::Parameter& p : stage.parameters()) {
    if (p.weight.shape.rank() != 1) continue;
    tensor::fill_normal(test::opened(p.weight), 9, p.name, 0.2, 1);
    if (adds_one || p.name.ends_with(".bias")) continue;
    for (std::int64_t i = 0; i < p.weight.num_elements(); ++i)
      test::opened(p.weight).as<float>()[i] += 1;
  }
  stage.weights_changed();
}

/// |a - b| / |b|, as vectors. If b is zero (q and k of a single token), 0 if a is only noise.
double relative_difference(const float* a, const std::vector<double>& b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  if (size < 1e-18) return difference < 1e-12 ? 0 : 1;
  return std::sqrt(difference / size);
}

struct Worst {
  double loss = 0;
  double gradient = 0;
  std::string parameter;
};

Worst compare(const Case& c, tensor::DType dtype) {
  Case typed = c;
  typed.rest.dtype = dtype;
  const auto device = test::make_test_device(2);
  Pipeline pipeline(whole(typed), *device, 3);
  stages::Stage& stage = *pipeline.stages().front();
  disturb_norms(stage, c.model());
  const auto model = reference::make_reference(c.model(), c.seq_len, stage);
  reference::Decoder& reference = *model;
  const auto batch = batch_of(c);
  const StepResult got = pipeline.gradients(batch);
  Worst worst;
  std::vector<double> balances;  // of routers, over the step
  const double scale = 1.0 / static_cast<double>(2 * c.micro * c.seq_len);
  reference.share = 0.5;
  for (std::size_t m = 0; m < batch.size(); ++m) {
    const double loss = reference.train(batch[m].ids, batch[m].targets, scale);
    balances.resize(reference.balances.size());
    for (std::size_t i = 0; i < balances.size(); ++i)
      balances[i] += reference.share * reference.balances[i];
    worst.loss = std::max(worst.loss, std::abs(got.losses[m] - loss) / loss);
  }
  BOOST_TEST(balances.size() == stage.router_loads().size());
  for (std::size_t i = 0; i < balances.size(); ++i)
    worst.loss = std::max(worst.loss, std::abs(stage.router_loads()[i].balance / balances[i] - 1));
  // By tensors of files: of GPT-2's joined biases, that of the keys has no gradient but noise,
  // because the softmax does not change when all scores of a query do.
  std::map<std::string, std::pair<std::vector<float>, std::vector<double>>> tensors;
  const auto infos = parameters_of(c.model());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    auto& [values, expected] = tensors[infos[i].stored.tensor];
    const tensor::Tensor& g = stage.parameters()[i].gradient;
    values.insert(values.end(), test::opened(g).as<float>(),
                  test::opened(g).as<float>() + g.num_elements());
    const auto& exact = reference.gradients.at(infos[i].name);
    expected.insert(expected.end(), exact.begin(), exact.end());
  }
  for (const auto& [name, gradients] : tensors) {
    const double d = relative_difference(gradients.first.data(), gradients.second);
    if (d > worst.gradient) worst = {worst.loss, d, name};
  }
  return worst;
}

}  // namespace

// Checks the reference itself: its gradients are those of its loss.
BOOST_DATA_TEST_CASE(reference_gradient_is_the_slope_of_its_loss,
                     boost::unit_test::data::make(kCases), c) {
  const auto device = test::make_test_device();
  Pipeline pipeline(whole(c), *device, 3);
  disturb_norms(*pipeline.stages().front(), c.model());
  const auto model = reference::make_reference(c.model(), c.seq_len, *pipeline.stages().front());
  reference::Decoder& reference = *model;
  const Tokens tokens = batch_of(c).front();
  reference.train(tokens.ids, tokens.targets, 1);
  const auto gradients = reference.gradients;
  const auto loss = [&] {
    const double of_tokens = reference.loss(tokens.ids, tokens.targets);
    return of_tokens + reference.router_loss;
  };
  for (auto& [name, weight] : reference.weights) {
    const std::size_t i = weight.size() / 3;
    const double h = 1e-5;
    const double w = weight[i];
    weight[i] = w + h;
    const double above = loss();
    weight[i] = w - h;
    const double below = loss();
    weight[i] = w;
    const double slope = (above - below) / (2 * h);
    const double g = gradients.at(name)[i];
    BOOST_TEST(std::abs(slope - g) <= 1e-6 * (1 + std::abs(g)), name << ": " << slope << " " << g);
  }
}

BOOST_DATA_TEST_CASE(float32_gradients_are_the_reference_s, boost::unit_test::data::make(kCases),
                     c) {
  const Worst worst = compare(c, tensor::DType::f32);
  BOOST_TEST(worst.loss < 1e-6, worst.loss);
  BOOST_TEST(worst.gradient < 1e-5, worst.parameter << " " << worst.gradient);
}

BOOST_DATA_TEST_CASE(bfloat16_gradients_are_close, boost::unit_test::data::make(kCases), c) {
  const Worst worst = compare(c, tensor::DType::bf16);
  BOOST_TEST(worst.loss < 1e-2, worst.loss);
  if (c.model().experts.count > 0) return;  // a rounded router may choose another expert
  // The gradient of a norm of keys is a sum over tokens and heads of what the softmax's gradients
  // give, which add up to 0 over the keys of a query: its terms, and their rounding, are larger.
  const bool norms_heads = traits_of(c.rest.kind).head_norm != stages::HeadNorm::none;
  BOOST_TEST(worst.gradient < (norms_heads ? 1e-1 : 5e-2),
             worst.parameter << " " << worst.gradient);
}

BOOST_DATA_TEST_CASE(evaluation_gives_loss_and_logits, boost::unit_test::data::make(kCases), c) {
  const auto device = test::make_test_device();
  Pipeline pipeline(whole(c), *device, 3);
  stages::Stage& stage = *pipeline.stages().front();
  disturb_norms(stage, c.model());
  const auto model = reference::make_reference(c.model(), c.seq_len, stage);
  reference::Decoder& reference = *model;
  const Tokens tokens = batch_of(c).front();
  const reference::Values logits = reference.logits(tokens.ids);
  const double loss = reference.loss(tokens.ids, tokens.targets);
  std::vector<float> got(logits.size());
  const tensor::Tensor out = {
      got.data(), tensor::DType::f32, {c.micro * c.seq_len, c.model().vocab_size}};
  BOOST_TEST(stage.evaluate(0, {}, out, tokens.ids, tokens.targets) == loss,
             boost::test_tools::tolerance(1e-6));
  BOOST_TEST(relative_difference(got.data(), logits) < 1e-5);
  std::fill(got.begin(), got.end(), 0.0f);
  BOOST_TEST(stage.evaluate(0, {}, out, tokens.ids, {}) == 0.0);
  BOOST_TEST(relative_difference(got.data(), logits) < 1e-5);
}

BOOST_AUTO_TEST_SUITE_END()
