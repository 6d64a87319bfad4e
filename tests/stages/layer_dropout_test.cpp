// Dropout in training: what a model drops, in its forward and in every gradient, and that it is the
// same function however the step is divided.

#include "stages/decoder/layers/layer_dropout.h"

#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tensor/parallel/division.h"
#include "tests/support/families.h"
#include "tests/support/pipeline.h"
#include "tests/support/reference_models.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(layer_dropout_test)

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr std::uint64_t kSeed = 11;
constexpr std::int64_t kSeqLen = 7;
constexpr std::int64_t kSamples = 8;  // of a step

struct Kind {
  const char* name;
  double hidden, attention;
  tensor::DType dtype = tensor::DType::f32;
  stages::ModelKind model = stages::ModelKind::llama;
  std::string_view family = {};  ///< as_family()
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}
const std::vector<Kind> kKinds = {
    {"hidden", 0.1, 0},
    {"attention", 0, 0.3},
    {"both", 0.2, 0.1},
    {"both, bfloat16", 0.2, 0.1, tensor::DType::bf16},
    {"GPT-2", 0.2, 0.1, tensor::DType::f32, stages::ModelKind::gpt2},
    {"Gemma 2", 0.2, 0.1, tensor::DType::f32, stages::ModelKind::llama, "gemma2"},
    {"Granite", 0.2, 0.1, tensor::DType::f32, stages::ModelKind::llama, "granite"},
    {"Mixtral", 0.2, 0.1, tensor::DType::f32, stages::ModelKind::llama, "mixtral"}};

stages::ModelConfig model_of(const Kind& kind) {
  const stages::ModelConfig sizes{
      .kind = kind.model,
      .hidden_size = 24,
      .intermediate_size = 40,
      .num_hidden_layers = 3,
      .num_attention_heads = 6,
      .num_key_value_heads = kind.model == stages::ModelKind::llama ? 2 : 6,
      .head_dim = 4,
      .vocab_size = 33,
      .max_position_embeddings = kSeqLen,
      .initializer_range = 0.15,
      .hidden_dropout = kind.hidden,
      .attention_dropout = kind.attention,
      .dtype = kind.dtype};
  return as_family(sizes, kind.family);
}

/// One stage, which trains `replica` of `replicas` with microbatches of `micro` samples.
PipelineSpec pipeline_of(const Kind& kind, std::int64_t micro = 2, int replicas = 1,
                         int replica = 0) {
  return {.model = model_of(kind),
          .layers_of_chunk = {3},
          .stage_of_chunk = {0},
          .microbatches = static_cast<int>(kSamples / replicas / micro),
          .micro = micro,
          .seq_len = kSeqLen,
          .seed = kSeed,
          .replicas = replicas,
          .replica = replica};
}

/// The samples [first, first + count) of a step.
Tokens samples(std::int64_t first, std::int64_t count) {
  Tokens out;
  for (std::int64_t s = first; s < first + count; ++s) {
    const Tokens sample = random_tokens(kSeqLen, 33, static_cast<std::uint64_t>(s));
    out.ids.insert(out.ids.end(), sample.ids.begin(), sample.ids.end());
    out.targets.insert(out.targets.end(), sample.targets.begin(), sample.targets.end());
  }
  return out;
}
std::vector<Tokens> batch_of(const PipelineSpec& spec) {
  std::vector<Tokens> batch;
  const std::int64_t first = spec.replica * spec.microbatches * spec.micro;
  for (int m = 0; m < spec.microbatches; ++m)
    batch.push_back(samples(first + m * spec.micro, spec.micro));
  return batch;
}

/// The factor of element `index` of a tensor that is dropped with probability p.
double factor(const tensor::Random& random, double p, std::uint64_t index) {
  const float chance = static_cast<float>(p);
  return random.word(index) < std::floor(double{chance} * 0x1p32) ? 0 : 1 / (1 - double{chance});
}

/// The factors of tokens of a microbatch, [micro * seq_len, C], by their rows in the whole step.
reference::Values factors_of_tokens(const Kind& kind, const tensor::Random& random,
                                    std::int64_t first_sample, std::int64_t micro) {
  const std::int64_t channels = model_of(kind).hidden_size;
  reference::Values out;
  for (std::int64_t i = 0; i < micro * kSeqLen * channels; ++i)
    out.push_back(factor(random, kind.hidden,
                         static_cast<std::uint64_t>(first_sample * kSeqLen * channels + i)));
  return out;
}

/// The factors of a microbatch's probabilities, [H, B, S, S], by head, sample of the whole step,
/// query and key.
reference::Values factors_of_probabilities(const Kind& kind, const tensor::Random& random,
                                           std::int64_t first_sample, std::int64_t micro) {
  reference::Values out;
  for (std::int64_t head = 0; head < model_of(kind).num_attention_heads; ++head)
    for (std::int64_t b = 0; b < micro; ++b)
      for (std::int64_t pair = 0; pair < kSeqLen * kSeqLen; ++pair) {
        const std::int64_t row = head * kSamples + first_sample + b;
        out.push_back(factor(random, kind.attention,
                             static_cast<std::uint64_t>(row * kSeqLen * kSeqLen + pair)));
      }
  return out;
}

std::map<std::string, reference::Values> factors_of(const Kind& kind, std::uint64_t step,
                                                    std::int64_t first_sample, std::int64_t micro) {
  const auto tokens = [&](const tensor::Random& random) {
    return factors_of_tokens(kind, random.part(step), first_sample, micro);
  };
  std::map<std::string, reference::Values> out;
  out["embedding"] = tokens(tensor::Random(kSeed, "dropout.embedding"));
  for (std::uint64_t layer = 0; layer < 3; ++layer) {
    const auto random = [&](const char* name) { return tensor::Random(kSeed, name).part(layer); };
    const bool is_llama = kind.model == stages::ModelKind::llama;
    const std::string name =
        (is_llama ? "model.layers." : "transformer.h.") + std::to_string(layer) + ".";
    out[name + "attention"] = tokens(random("dropout.attention"));
    out[name + "feed_forward"] = tokens(random("dropout.feed_forward"));
    out[name + "probabilities"] = factors_of_probabilities(
        kind, random("dropout.attention.probabilities").part(step), first_sample, micro);
  }
  return out;
}

/// |a - b| / |b|, as vectors. If b is zero (biases of keys), 0 if a is only noise.
double distance(const float* a, const reference::Values& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return size < 1e-20 && difference < 1e-14 ? 0 : std::sqrt(difference / size);
}

/// Losses by sample of the step, and gradients, summed over replicas.
struct Trained {
  double loss = 0;
  std::map<std::string, reference::Values> gradients;
};
Trained gradients_of(const Kind& kind, std::int64_t micro, int replicas) {
  const auto device = test::make_test_device();
  Trained sum;
  for (int replica = 0; replica < replicas; ++replica) {
    const PipelineSpec spec = pipeline_of(kind, micro, replicas, replica);
    Pipeline pipeline(spec, *device, kSeed);
    for (const double loss : pipeline.gradients(batch_of(spec), 4).losses) sum.loss += loss;
    for (const stages::Parameter& p : pipeline.stages().front()->parameters()) {
      auto& gradient = sum.gradients[p.name];
      gradient.resize(static_cast<std::size_t>(p.gradient.num_elements()));
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] += test::opened(p.gradient).as<float>()[i];
    }
  }
  return sum;
}

}  // namespace

BOOST_DATA_TEST_CASE(losses_and_gradients_are_the_reference_s, boost::unit_test::data::make(kKinds),
                     kind) {
  constexpr std::int64_t kStep = 4;
  const auto device = test::make_test_device(2);
  const PipelineSpec spec = pipeline_of(kind);
  const auto batch = batch_of(spec);
  const bool exact = kind.dtype == tensor::DType::f32;
  for (const Order order : {Order::one_by_one, Order::late_weights}) {
    PipelineSpec ordered = spec;
    ordered.order = order;
    Pipeline pipeline(ordered, *device, kSeed);
    const auto parameters = pipeline.stages().front()->parameters();
    const auto reference =
        reference::make_reference(spec.model, kSeqLen, *pipeline.stages().front());
    const StepResult got = pipeline.gradients(batch, kStep);
    for (std::size_t m = 0; m < batch.size(); ++m) {
      reference->factors = factors_of(kind, kStep, static_cast<std::int64_t>(m) * spec.micro, 2);
      const double loss =
          reference->train(batch[m].ids, batch[m].targets, 1.0 / (kSamples * kSeqLen));
      BOOST_TEST(std::abs(got.losses[m] / loss - 1) < (exact ? 1e-6 : 1e-2));
    }
    for (const stages::Parameter& p : parameters) {
      const double d =
          distance(test::opened(p.gradient).as<float>(), reference->gradients.at(p.name));
      BOOST_TEST(d < (exact ? 1e-5 : 5e-2), p.name << ": " << d);
    }
  }
}

BOOST_AUTO_TEST_CASE(microbatches_and_replicas_divide_the_masks_of_one_step) {
  const Kind kind = kKinds[2];
  const Trained whole = gradients_of(kind, 8, 1);
  for (const auto& [micro, replicas] : {std::pair{1, 1}, {4, 1}, {1, 2}, {2, 4}}) {
    const Trained parts = gradients_of(kind, micro, replicas);
    BOOST_TEST(std::abs(parts.loss / whole.loss - 1) < 2e-6, micro << " x " << replicas);
    for (const auto& [name, gradient] : whole.gradients) {
      const auto& got = parts.gradients.at(name);
      const std::vector<float> floats(got.begin(), got.end());
      const double d = distance(floats.data(), gradient);
      BOOST_TEST(d < 1e-5, name << ", " << micro << " x " << replicas << ": " << d);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_is_done_again_drops_alike_and_another_one_does_not) {
  const auto device = test::make_test_device();
  for (const Kind& kind : kKinds) {
    const PipelineSpec spec = pipeline_of(kind);
    Pipeline pipeline(spec, *device, kSeed);
    const auto losses = [&](std::int64_t step) {
      return pipeline.gradients(batch_of(spec), step).losses;
    };
    const auto first = losses(0), second = losses(1);
    BOOST_TEST((losses(0) == first), kind);
    for (std::size_t m = 0; m < first.size(); ++m) BOOST_TEST(first[m] != second[m], kind);
  }
}

BOOST_AUTO_TEST_CASE(evaluations_drop_nothing) {
  const auto device = test::make_test_device();
  for (const Kind& kind : kKinds) {
    const Kind plain{"", 0, 0, kind.dtype, kind.model, kind.family};
    const PipelineSpec dropped = pipeline_of(kind), whole = pipeline_of(plain);
    Pipeline trained(dropped, *device, kSeed), other(whole, *device, kSeed);
    trained.gradients(batch_of(dropped), 0);
    const Tokens tokens = samples(0, 2);
    BOOST_TEST(trained.evaluate(tokens) == other.evaluate(tokens), kind);
  }
}

// A microbatch of two lanes drops what two microbatches of their samples do, on any shard.
BOOST_AUTO_TEST_CASE(rows_of_lanes_are_dropped_by_their_samples) {
  constexpr std::int64_t kColumns = 5, kRows = 12;
  const auto device = make_test_device(1);
  const auto stream = device->make_stream();
  const auto memory = [&] {
    return device->allocate(kRows * kColumns * sizeof(float), tensor::MemoryKind::pinned);
  };
  const tensor::Buffer in = memory(), whole = memory(), parts = memory();
  const auto view = [&](const tensor::Buffer& of, std::int64_t first, std::int64_t rows) {
    return tensor::row_view(of.view(tensor::DType::f32, {kRows, kColumns}), first, rows);
  };
  std::fill_n(view(in, 0, kRows).as<float>(), kRows * kColumns, 1.0f);
  const stages::HiddenDropout lanes{
      .dropout = {0.4f, 7}, .columns = kColumns, .first_row = 6, .run = 6, .gap = 18};
  lanes.apply(device->ops(), *stream, view(in, 0, kRows), view(whole, 0, kRows));
  for (const std::int64_t lane : {0, 1}) {
    const stages::HiddenDropout one{
        .dropout = lanes.dropout, .columns = kColumns, .first_row = 6 + 24 * lane};
    one.apply(device->ops(), *stream, view(in, 6 * lane, 6), view(parts, 6 * lane, 6));
  }
  stream->synchronize();
  const auto same = [&] {
    const float* a = view(whole, 0, kRows).as<float>();
    return std::equal(a, a + kRows * kColumns, view(parts, 0, kRows).as<float>());
  };
  BOOST_TEST(same());
  for (const std::int64_t shard : {0, 1, 2}) {  // the second has rows of both lanes
    stages::HiddenDropout own = lanes;
    own.before = 4 * shard;
    own.apply(device->ops(), *stream, view(in, 4 * shard, 4), view(parts, 4 * shard, 4));
  }
  stream->synchronize();
  BOOST_TEST(same());
}

BOOST_AUTO_TEST_SUITE_END()
