// A stage computes for documents side by side what the double-precision reference computes for each
// of them alone.

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "stages/corpus/samples/document_batches.h"
#include "tests/support/families.h"
#include "tests/support/memory_tokens.h"
#include "tests/support/pipeline.h"
#include "tests/support/reference_models.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(stage_documents_test)

using namespace troupe;
using namespace troupe::test;
using stages::Documents;

namespace {

constexpr std::int64_t kSeqLen = 20, kVocab = 33;
constexpr int kMicro = 5, kMicrobatches = 2;  // 100 tokens, for which there are 105 rows

stages::ModelConfig llama() {
  return {.hidden_size = 24,
          .intermediate_size = 40,
          .num_hidden_layers = 2,
          .num_attention_heads = 6,
          .num_key_value_heads = 2,
          .head_dim = 4,
          .vocab_size = kVocab,
          .initializer_range = 0.15};
}

stages::ModelConfig dynamic_rotation() {
  stages::ModelConfig model = llama();
  model.max_position_embeddings = 6;
  model.rotary = {
      .type = tensor::RotaryType::dynamic, .factor = 2, .original_max_position_embeddings = 6};
  return model;
}

stages::ModelConfig gpt2() {
  stages::ModelConfig model = llama();
  model.kind = stages::ModelKind::gpt2;
  model.num_key_value_heads = model.num_attention_heads;
  model.max_position_embeddings = kSeqLen + 3;
  return model;
}

struct Case {
  const char* name;
  stages::ModelConfig model;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}
std::vector<Case> all_cases() {
  std::vector<Case> all{
      {"llama", llama()}, {"llama, dynamic rotation", dynamic_rotation()}, {"gpt2", gpt2()}};
  for (const char* family : kFamilies) {
    stages::ModelConfig model = as_family(llama(), family);
    // The losses of routers are means over microbatches, not sums over their tokens.
    model.experts.aux_loss_coef = model.experts.z_loss_coef = 0;
    all.push_back({family, model});
  }
  return all;
}
const std::vector<Case> kCases = all_cases();

/// Some documents, of which one is cut, and a few too short for a sample. With prompts, one piece
/// of the cut one is all prompt, and one document has nothing else.
stages::DataFeed feed_of(Documents documents, bool has_prompts = false) {
  const std::vector<std::int64_t> lengths = {3, 1, 21, 7, 0, 45, 2, 12, 5};
  MemoryTokens tokens = MemoryTokens::of_lengths(lengths);
  if (has_prompts) tokens = tokens.with_prompts({2, 0, 20, 7, 0, 26, 1, 0, 3});
  return {std::make_unique<MemoryTokens>(tokens.with_ids_below(kVocab)),
          {.documents = documents,
           .seq_len = kSeqLen,
           .micro = kMicro,
           .global = kMicro * kMicrobatches,
           .vocab_size = kVocab}};
}

std::vector<Tokens> batch_of(const stages::DataFeed& feed) {
  const auto rows = stages::row_sizes(feed.spec().documents, kMicro * kSeqLen, 1);
  stages::DocumentBatches batches(feed, rows.step);
  batches.begin(0);
  std::vector<Tokens> batch(kMicrobatches);
  for (int m = 0; m < kMicrobatches; ++m) {
    Tokens& tokens = batch[static_cast<std::size_t>(m)];
    tokens.positions.resize(static_cast<std::size_t>(rows.capacity));
    tokens.starts.resize(tokens.positions.size() + 1);
    tokens.real.resize(tokens.positions.size());
    const auto size = batches.lay_out(0, m, tokens.starts, tokens.positions, tokens.real);
    const auto count = static_cast<std::size_t>(size.rows);
    tokens.starts.resize(static_cast<std::size_t>(size.documents) + 1);
    for (auto* row : {&tokens.positions, &tokens.real, &tokens.ids, &tokens.targets})
      row->resize(count);
    batches.read(0, m, tokens.ids, tokens.targets);
  }
  return batch;
}

std::unique_ptr<Pipeline> whole(const stages::ModelConfig& model, Documents documents,
                                tensor::Device& device) {
  return std::make_unique<Pipeline>(
      PipelineSpec{.model = model,
                   .layers_of_chunk = {static_cast<int>(model.num_hidden_layers)},
                   .stage_of_chunk = {0},
                   .microbatches = kMicrobatches,
                   .micro = kMicro,
                   .seq_len = kSeqLen,
                   .documents = documents},
      device, 3);
}

/// Squared distance of the gradients from the reference's, and its squared size.
std::pair<double, double> distance(const tensor::Tensor& gradient, const reference::Values& exact) {
  double error = 0, size = 0;
  const float* got = test::opened(gradient).as<float>();
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (got[i] - exact[i]) * (got[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return {error, size};
}

}  // namespace

BOOST_DATA_TEST_CASE(documents_train_as_each_alone,
                     boost::unit_test::data::make(kCases) *
                         boost::unit_test::data::make({false, true}),
                     c, has_prompts) {
  for (const Documents documents : {Documents::packed, Documents::padded}) {
    const auto device = test::make_test_device(2);
    const auto pipeline = whole(c.model, documents, *device);
    const stages::DataFeed feed = feed_of(documents, has_prompts);
    const StepResult got = pipeline->gradients(batch_of(feed));

    const stages::Stage& stage = *pipeline->stages().front();
    std::int64_t targets = 0;
    for (int n = 0; n < kMicro * kMicrobatches; ++n) targets += feed.sample(0, n).trained();
    double loss = 0;
    std::map<std::string, reference::Values> gradients;
    for (int n = 0; n < kMicro * kMicrobatches; ++n) {
      const stages::Sample sample = feed.sample(0, n);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(sample.targets)), next = ids;
      feed.read(sample, ids, next);
      const auto model = reference::make_reference(c.model, sample.targets, stage);
      loss += model->train(ids, next, 1.0 / static_cast<double>(targets));
      for (const auto& [name, values] : model->gradients) {
        auto& sum = gradients[name];
        sum.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
      }
    }
    BOOST_TEST(std::abs((got.losses[0] + got.losses[1]) / loss - 1) < 2e-6);
    double error = 0, size = 0;
    for (const stages::Parameter& p : stage.parameters()) {
      const auto [e, s] = distance(p.gradient, gradients.at(p.name));
      BOOST_TEST(e <= 1e-10 * s + 1e-14, p.name << ": " << e << " of " << s);
      error += e;
      size += s;
    }
    BOOST_TEST(std::sqrt(error / size) < 3e-6);
  }
}

// What a slot held before does not show in a shorter microbatch.
BOOST_AUTO_TEST_CASE(a_microbatch_leaves_nothing_behind_for_a_shorter_one) {
  const auto device = test::make_test_device();
  const auto pipeline = whole(llama(), Documents::packed, *device);
  const auto rows = stages::row_sizes(Documents::packed, kMicro * kSeqLen, 1);
  std::vector<Tokens> batch;
  for (std::uint64_t m = 0; m < kMicrobatches; ++m)
    batch.push_back(
        random_documents({.capacity = 2 * rows.step, .step = rows.step}, kSeqLen, kVocab, m));
  const StepResult fresh = pipeline->gradients(batch);
  const auto state = pipeline->state();
  pipeline->gradients(
      {random_documents(rows, kSeqLen, kVocab, 8),
       random_documents({.capacity = rows.capacity, .step = rows.capacity}, kSeqLen, kVocab, 9)});
  const StepResult again = pipeline->gradients(batch);
  BOOST_TEST(fresh.losses == again.losses, boost::test_tools::per_element());
  BOOST_TEST((pipeline->state() == state));
}

BOOST_AUTO_TEST_CASE(an_evaluation_of_documents_has_the_loss_of_their_training) {
  const auto device = test::make_test_device();
  for (const Documents documents : {Documents::packed, Documents::padded}) {
    const auto pipeline = whole(gpt2(), documents, *device);
    const auto batch = batch_of(feed_of(documents));
    const StepResult trained = pipeline->gradients(batch);
    for (std::size_t m = 0; m < batch.size(); ++m)
      BOOST_TEST(pipeline->evaluate(batch[m]) == trained.losses[m]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
