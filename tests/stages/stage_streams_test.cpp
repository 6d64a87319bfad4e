// On a device whose streams run at the same time a stage computes the bits of the CPU, however the
// nodes of its forwards and backwards alternate, and keeps its promises about the caller's buffers.

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <random>

#include "stages/decoder/stage/optimizer.h"
#include "tests/stages/edge_message.h"
#include "tests/support/async_device.h"
#include "tests/support/families.h"
#include "tests/support/pipeline.h"
#include "tests/support/recomputes.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(stage_streams_test)

using namespace troupe;
using namespace troupe::test;
using stages::Pass;

namespace {

constexpr int kMicrobatches = 5;
constexpr int kLive = 2;
constexpr int kSteps = 3;
constexpr std::int64_t kTokens = 14;
constexpr std::int64_t kVocab = 61;

struct Kind {
  const char* name;
  tensor::DType dtype;
  bool tied = false;
  std::vector<stages::ChunkSpec> chunks;
  double dropout = 0;
  stages::ModelKind model = stages::ModelKind::llama;
  stages::Recompute recompute{};
  std::int64_t loss_chunk = 0;
  std::string_view family = {};  ///< as_family()
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}

const std::vector<stages::ChunkSpec> kWhole = {
    {.first_layer = 0, .end_layer = 1, .embedding = true, .live = kLive, .deferred = 1},
    {.first_layer = 1, .end_layer = 3, .live = kLive, .deferred = kLive},
    {.first_layer = 3, .end_layer = 3, .live = kLive, .deferred = 1},
    {.first_layer = 3, .end_layer = 4, .head = true, .live = kLive, .deferred = kLive}};
const std::vector<stages::ChunkSpec> kEnds = {
    {.embedding = true, .live = kLive, .deferred = 1},
    {.first_layer = 4, .end_layer = 4, .head = true, .live = kLive, .deferred = 1}};

Kind of_family(const char* name, tensor::DType dtype,
               const std::vector<stages::ChunkSpec>& chunks = kWhole, double dropout = 0) {
  return {name, dtype, true, chunks, dropout, stages::ModelKind::llama, {}, 0, name};
}

const std::vector<Kind> kKinds = {
    {"float32", tensor::DType::f32, false, kWhole},
    {"float32 tied", tensor::DType::f32, true, kWhole},
    {"bfloat16", tensor::DType::bf16, false, kWhole},
    {"bfloat16 tied", tensor::DType::bf16, true, kWhole},
    {"embedding and head alone", tensor::DType::f32, false, kEnds},
    {"dropout", tensor::DType::f32, true, kWhole, 0.2},
    {"ends with dropout", tensor::DType::bf16, false, kEnds, 0.2},
    {"gpt2", tensor::DType::f32, true, kWhole, 0, stages::ModelKind::gpt2},
    {"logits in parts", tensor::DType::bf16, true, kWhole, 0, stages::ModelKind::llama, {}, 5},
    {.name = "the head alone, in parts",
     .dtype = tensor::DType::f32,
     .chunks = kEnds,
     .loss_chunk = 1},
    of_family("qwen3", tensor::DType::bf16),
    of_family("gemma2", tensor::DType::f32, kWhole, 0.2),
    of_family("gemma3_text", tensor::DType::f32),
    of_family("granite", tensor::DType::f32),
    of_family("granite", tensor::DType::bf16, kEnds),
    of_family("olmo2", tensor::DType::f32),
    of_family("mixtral", tensor::DType::bf16),
    of_family("qwen3_moe", tensor::DType::f32, kWhole, 0.2)};

stages::StageSpec spec_of(const Kind& kind) {
  const bool is_gpt2 = kind.model == stages::ModelKind::gpt2;
  const stages::ModelConfig sizes{.kind = kind.model,
                                  .hidden_size = 40,
                                  .intermediate_size = 56,
                                  .num_hidden_layers = 4,
                                  .num_attention_heads = 4,
                                  .num_key_value_heads = is_gpt2 ? 4 : 2,
                                  .head_dim = 10,
                                  .vocab_size = kVocab,
                                  .max_position_embeddings = kTokens,
                                  .tie_word_embeddings = kind.tied,
                                  .initializer_range = 0.1,
                                  .hidden_dropout = kind.dropout,
                                  .attention_dropout = kind.dropout,
                                  .loss_chunk = kind.loss_chunk,
                                  .dtype = kind.dtype};
  return {.model = as_family(sizes, kind.family),
          .chunks = kind.chunks,
          .recompute = kind.recompute,
          .micro = 2,
          .seq_len = kTokens / 2,
          .global_tokens = kMicrobatches * kTokens,
          .keep_previous = true};
}

/// The progress of a microbatch in a chunk.
struct Work {
  int chunk = 0;
  int microbatch = 0;
  int slot = -1;  ///< from its forward to its weight gradients
  int deferred = -1;
  int forwards = 0, inputs = 0, weights = 0;  ///< 0 to come, 1 on the way, 2 done
  Tokens tokens;
  std::vector<EdgeMessage> messages;  ///< input, output, output gradient, input gradient
  std::unique_ptr<double> loss = std::make_unique<double>(0);

  tensor::Tensor loss_tensor() const { return {loss.get(), tensor::DType::f64, {1}}; }
};

/// A pass on its way.
struct Turn {
  Work* work = nullptr;
  Pass pass = Pass::forward;
  int node = 0;
};

/// Runs one stage on one device in one order of nodes.
class Run {
 public:
  Run(const Kind& kind, tensor::Device& device, std::uint64_t seed)
      : spec_(spec_of(kind)), stage_(make_transformer_stage(spec_, device)), random_(seed) {
    initialize(*stage_, spec_.model, 3, 1);
  }

  /// Trains, and returns everything that is computed, as bytes by name.
  std::map<std::string, std::string> train() {
    for (int step = 1; step <= kSteps; ++step) {
      if (step > 1) some_of_a_step();
      if (step > 2) {
        stage_->step_back();
        note_weights();
      }
      stage_->begin_step();
      run_all(step);
      stage_->synchronize();
      end_backward(*stage_);
      for (const stages::Parameter& p : stage_->parameters())
        note("gradient of " + p.name, p.gradient.data, p.gradient.num_bytes());
      std::vector<double> norms(stage_->parameters().size());
      stage_->squared_norms(norms);
      note("norms", norms.data(), norms.size() * sizeof norms[0]);
      stage_->apply(stages::adamw_step({.lr = 1e-2}, step, 1));
      note_weights();
      evaluate();
    }
    return std::move(found_);
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  void note(const std::string& name, const void* data, std::size_t bytes) {
    found_[name].append(static_cast<const char*>(opened(data)), bytes);
  }
  void note_weights() {
    for (const stages::Parameter& p : stage_->parameters())
      note(p.name, p.weight.data, p.weight.num_bytes());
  }
  const stages::ChunkSpec& chunk_of(const Work& work) const {
    return spec_.chunks[static_cast<std::size_t>(work.chunk)];
  }
  std::string name_of(const char* what, const Work& work) const {
    return std::to_string(step_) + ": " + what + " of chunk " + std::to_string(work.chunk) +
           ", microbatch " + std::to_string(work.microbatch);
  }

  void prepare(int step) {
    works_.clear();
    for (int c = 0; c < static_cast<int>(spec_.chunks.size()); ++c)
      for (int m = 0; m < kMicrobatches; ++m) {
        const auto seed = static_cast<std::uint64_t>((step * 10 + c) * 10 + m) * 10;
        Work work{.chunk = c, .microbatch = m, .tokens = random_tokens(kTokens, kVocab, seed)};
        for (std::uint64_t i = 0; i < 4; ++i) work.messages.emplace_back(*stage_, seed + i);
        works_.push_back(std::move(work));
      }
    slots_.assign(spec_.chunks.size(), std::vector<bool>(kLive));
    deferred_.clear();
    for (const auto& chunk : spec_.chunks)
      deferred_.emplace_back(static_cast<std::size_t>(chunk.deferred));
  }

  void run_all(int step) {
    step_ = step;
    prepare(step);
    for (;;) {
      const bool is_forward = pick(2) == 0;
      if (!advance(is_forward) && !advance(!is_forward)) break;
    }
    stage_->synchronize();
    for (Work& work : works_) {
      BOOST_REQUIRE(work.weights == 2);
      note_output(work);
      note_input_gradient(work);
      if (chunk_of(work).head) note(name_of("loss", work), work.loss.get(), sizeof(double));
    }
  }

  /// Runs a part of a step and gives it up.
  void some_of_a_step() {
    stage_->begin_step();
    step_ = 0;
    prepare(0);
    for (int i = 0; i < 30; ++i) advance(pick(2) == 0);
    forward_ = backward_ = {};
    dropped_.push_back(std::move(works_));  // nodes still write into its buffers
  }

  /// Runs a node of a forward, or of a backward; false if none may run now.
  bool advance(bool is_forward) {
    Turn& turn = is_forward ? forward_ : backward_;
    if (!turn.work) turn = next(is_forward);
    if (!turn.work) return false;
    run_node(turn);
    return true;
  }

  /// A random one of the passes that may begin now; none if there is none.
  Turn next(bool is_forward) {
    std::vector<Turn> all;
    std::vector<bool> weights_due(spec_.chunks.size(), true), forward_due = weights_due;
    for (Work& work : works_) {
      const auto c = static_cast<std::size_t>(work.chunk);
      if (is_forward && work.forwards == 0 && forward_due[c] && find_free(slots_[c]) >= 0)
        all.push_back({&work, Pass::forward});
      if (!is_forward && work.forwards == 2 && work.inputs == 0 && weights_due[c])
        all.push_back({&work, Pass::backward});
      if (!is_forward && work.forwards == 2 && work.inputs == 0 && find_free(deferred_[c]) >= 0)
        all.push_back({&work, Pass::input_gradient});
      if (!is_forward && work.inputs == 2 && work.weights == 0 && weights_due[c])
        all.push_back({&work, Pass::weight_gradient});
      if (work.forwards == 0) forward_due[c] = false;
      if (work.weights != 2) weights_due[c] = false;
    }
    if (all.empty()) return {};
    const Turn turn = all[static_cast<std::size_t>(pick(static_cast<int>(all.size())))];
    begin(*turn.work, turn.pass);
    return turn;
  }
  static int find_free(const std::vector<bool>& taken) {
    const auto free = std::find(taken.begin(), taken.end(), false);
    return free == taken.end() ? -1 : static_cast<int>(free - taken.begin());
  }
  static int take(std::vector<bool>& taken) {
    const int free = find_free(taken);
    taken[static_cast<std::size_t>(free)] = true;
    return free;
  }
  void begin(Work& work, Pass pass) {
    const auto c = static_cast<std::size_t>(work.chunk);
    if (pass == Pass::forward) work.slot = take(slots_[c]);
    if (pass == Pass::input_gradient) work.deferred = take(deferred_[c]);
    set(work, pass, 1);
  }
  void end(Work& work, Pass pass) {
    const auto c = static_cast<std::size_t>(work.chunk);
    set(work, pass, 2);
    if (work.weights != 2) return;
    slots_[c][static_cast<std::size_t>(work.slot)] = false;
    if (work.deferred >= 0) deferred_[c][static_cast<std::size_t>(work.deferred)] = false;
  }
  static void set(Work& work, Pass pass, int to) {
    if (pass == Pass::forward) work.forwards = to;
    if (pass == Pass::backward || pass == Pass::input_gradient) work.inputs = to;
    if (pass == Pass::backward || pass == Pass::weight_gradient) work.weights = to;
  }

  void run_node(Turn& turn) {
    Work& work = *turn.work;
    const auto nodes = stage_->nodes(work.chunk, turn.pass);
    const stages::NodeEffects end_of_node = nodes[static_cast<std::size_t>(turn.node)];
    call(work, turn);
    if (pick(2) == 0) take_messages(work, turn.pass, end_of_node);
    if (++turn.node < static_cast<int>(nodes.size())) return;
    end(work, turn.pass);
    turn = {};
  }

  void call(Work& work, const Turn& turn) {
    const stages::ChunkSpec& chunk = chunk_of(work);
    const auto message = [&](std::size_t i, bool is_there) {
      return is_there ? work.messages[i].in(*stage_) : tensor::Tensor{};
    };
    if (turn.pass == Pass::forward) {
      stage_->forward_node({.chunk = work.chunk,
                            .slot = work.slot,
                            .input = message(0, !chunk.embedding),
                            .output = message(1, !chunk.head),
                            .ids = work.tokens.ids,
                            .targets = work.tokens.targets,
                            .place = {step_, 2 * work.microbatch},
                            .loss = work.loss_tensor()},
                           turn.node);
      return;
    }
    const bool is_weights = turn.pass == Pass::weight_gradient;
    stage_->backward_node({.pass = turn.pass,
                           .chunk = work.chunk,
                           .slot = work.slot,
                           .deferred = std::max(work.deferred, 0),
                           .output_gradient = message(2, !chunk.head && !is_weights),
                           .input_gradient = message(3, !chunk.embedding && !is_weights)},
                          turn.node);
  }

  /// Does as the interpreter does: waits, and then gives away messages that are complete or no
  /// longer read.
  void take_messages(Work& work, Pass pass, const stages::NodeEffects& of_node) {
    if (!of_node.output && !of_node.input && !of_node.output_gradient) return;
    stage_->ran(work.chunk, work.slot).synchronize();
    if (of_node.input) work.messages[0].take();
    if (of_node.output_gradient) work.messages[2].take();
    if (of_node.output && pass == Pass::forward) note_output(work);
    if (of_node.output && pass != Pass::forward) note_input_gradient(work);
  }
  void note_output(Work& work) {
    if (!chunk_of(work).head) note_once(name_of("output", work), work.messages[1]);
  }
  void note_input_gradient(Work& work) {
    if (!chunk_of(work).embedding) note_once(name_of("input gradient", work), work.messages[3]);
  }
  void note_once(const std::string& name, EdgeMessage& message) {
    const std::string bytes = message.take();
    if (step_ > 0) found_.try_emplace(name, bytes);
  }

  void evaluate() {
    for (int c = 0; c < static_cast<int>(spec_.chunks.size()); ++c) {
      const auto& chunk = spec_.chunks[static_cast<std::size_t>(c)];
      EdgeMessage input(*stage_, 5), output(*stage_, 6);
      const Tokens tokens = random_tokens(kTokens, kVocab, 7);
      const double loss = stage_->evaluate(
          c, chunk.embedding ? tensor::Tensor{} : input.in(*stage_),
          chunk.head ? tensor::Tensor{} : output.in(*stage_), tokens.ids, tokens.targets);
      note("evaluation", &loss, sizeof loss);
      const std::string bytes = output.take();
      note("evaluation", bytes.data(), bytes.size());
    }
  }

  const stages::StageSpec spec_;
  int step_ = 0;  ///< 0 while nothing is recorded
  std::vector<Work> works_;
  std::vector<std::vector<Work>> dropped_;
  std::unique_ptr<stages::Stage> stage_;  // its streams use the works
  std::mt19937_64 random_;
  Turn forward_, backward_;                          // the passes under way
  std::vector<std::vector<bool>> slots_, deferred_;  // whether taken, by chunk
  std::map<std::string, std::string> found_;
};

/// Compares what streams that run at the same time compute, in an order that `seed` gives.
void check_streams(const Kind& kind, std::uint64_t seed,
                   const std::map<std::string, std::string>& expected) {
  BOOST_TEST_CONTEXT("seed " << seed) {
    AsyncDevice device(seed);
    const auto found = Run(kind, device, seed).train();
    BOOST_REQUIRE(found.size() == expected.size());
    for (const auto& [name, bytes] : expected) BOOST_TEST((found.at(name) == bytes), name);
  }
}

}  // namespace

BOOST_DATA_TEST_CASE(streams_that_run_at_once_compute_the_same_bits,
                     boost::unit_test::data::make(kKinds), kind) {
  const std::uint64_t seed = fresh_seed();
  const auto cpu = tensor::make_cpu_device(1);
  const auto expected = Run(kind, *cpu, seed).train();
  for (std::uint64_t i = 0; i < 6; ++i) check_streams(kind, seed + i, expected);
}

BOOST_AUTO_TEST_CASE(streams_compute_the_same_bits_again) {
  const std::uint64_t seed = fresh_seed();
  const auto cpu = tensor::make_cpu_device(1);
  for (Kind kind :
       {kKinds.front(),
        Kind{"gpt2 with dropout", tensor::DType::f32, true, kWhole, 0.2, stages::ModelKind::gpt2},
        of_family("gemma2", tensor::DType::bf16), of_family("olmo2", tensor::DType::f32),
        of_family("qwen3_moe", tensor::DType::f32)}) {
    const auto expected = Run(kind, *cpu, seed).train();
    for (const stages::Recompute& recompute : ways_to_recompute()) {
      kind.recompute = recompute;
      BOOST_TEST_CONTEXT(kind << ", " << recompute)
      check_streams(kind, seed, expected);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
