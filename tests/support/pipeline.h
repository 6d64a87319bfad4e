#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "stages/decoder/stage/optimizer.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "stages/stage/row_sizes.h"
#include "tensor/values/random.h"
#include "tests/support/adapters.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/stage_passes.h"

// A model cut into stages and trained in one process: a few loops do what the compute threads and
// the director do over the wire, so that tests can compare the numbers of different cuts and
// orders.

namespace troupe::test {

/// A microbatch's tokens.
struct Tokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> targets;
  // Of a microbatch of documents.
  std::vector<std::int32_t> starts{};
  std::vector<std::int32_t> positions{};
  std::vector<std::int32_t> real{};

  stages::DocumentRows documents() const {
    if (starts.empty()) return {};
    return {.rows = std::ssize(ids), .starts = starts, .positions = positions, .real = real};
  }
};

inline Tokens random_tokens(std::int64_t count, std::int64_t vocab, std::uint64_t seed) {
  const tensor::Random random(seed, "tokens");
  Tokens tokens;
  for (std::int64_t i = 0; i <= count; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(i));
    tokens.ids.push_back(static_cast<std::int32_t>(u * static_cast<double>(vocab)));
  }
  tokens.targets.assign(tokens.ids.begin() + 1, tokens.ids.end());
  tokens.ids.pop_back();
  return tokens;
}

/// Documents of random lengths up to `longest`, in a random number of rows that is allowed, with
/// padding behind them.
inline Tokens random_documents(const stages::RowSizes& rows, std::int64_t longest,
                               std::int64_t vocab, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  const std::int64_t count = rows.step * up_to(rows.capacity / rows.step);
  const std::int64_t padding = up_to(rows.step) - 1;
  Tokens tokens = random_tokens(count, vocab, seed);
  tokens.starts = {0};
  for (std::int64_t left = count - padding; left > 0;) {
    const std::int64_t length = up_to(std::min(left, longest));
    for (std::int64_t i = 0; i < length; ++i)
      tokens.positions.push_back(static_cast<std::int32_t>(i));
    tokens.starts.push_back(static_cast<std::int32_t>(tokens.positions.size()));
    left -= length;
  }
  tokens.positions.resize(tokens.ids.size());
  std::fill(tokens.targets.end() - padding, tokens.targets.end(), tensor::kNoTarget);
  return tokens;
}

/// How a step's actions follow each other. Weight gradients always come in microbatch order.
enum class Order {
  one_by_one,      ///< each microbatch forward and backward through all chunks
  all_forward,     ///< all F, then all B
  late_weights,    ///< all F, all I, all W
  mixed_backward,  ///< all F; I W for odd microbatches, B for even ones
};

struct PipelineSpec {
  stages::ModelConfig model;
  /// Number of layers of each chunk in model order.
  std::vector<int> layers_of_chunk;
  /// The stage of each chunk.
  std::vector<int> stage_of_chunk;
  int microbatches = 1;
  std::int64_t micro = 1;
  std::int64_t seq_len = 8;
  stages::Documents documents = stages::Documents::joined;
  bool decay_all = false;
  Order order = Order::one_by_one;
  /// The shard of every stage that this pipeline is.
  stages::Sharding sharding{};
  std::uint64_t seed = 11;  ///< of dropout
  /// Replicas of a step, and which of them this pipeline is.
  int replicas = 1;
  int replica = 0;
  stages::Recompute recompute{};
};

/// Results of a step that must not depend on the cut.
struct StepResult {
  std::vector<double> losses;  ///< by microbatch
  double norm = 0;
};

class Pipeline {
 public:
  Pipeline(const PipelineSpec& spec, tensor::Device& device, std::uint64_t seed,
           const stages::ShardGroups& groups = {})
      : spec_(spec),
        device_(device),
        stream_(device.make_stream()),
        loss_(device.allocate(sizeof(double), tensor::MemoryKind::pinned)) {
    const int num_stages =
        1 + *std::max_element(spec.stage_of_chunk.begin(), spec.stage_of_chunk.end());
    for (int s = 0; s < num_stages; ++s) {
      stages_.push_back(make_transformer_stage(stage_spec(s), device));
      stages_.back()->join(groups);
      initialize(*stages_.back(), spec.model, seed, 1);
      if (spec.model.adapter) draw_base(*stages_.back(), stage_spec(s), device, seed);
    }
    const auto shape = stages_.front()->edge_shape();
    for (int i = 0; i < 2 * num_chunks() * spec.microbatches; ++i) {
      const std::size_t bytes =
          static_cast<std::size_t>(shape.num_elements()) * size_of(stages_.front()->edge_dtype());
      edges_.push_back(device.allocate(bytes, tensor::MemoryKind::device));
    }
  }

  stages::StageSpec stage_spec(int stage) const {
    stages::StageSpec out = {.model = spec_.model,
                             .chunks = {},
                             .sharding = spec_.sharding,
                             .recompute = spec_.recompute,
                             .micro = spec_.micro,
                             .seq_len = spec_.seq_len,
                             .documents = spec_.documents,
                             .global_tokens = spec_.replicas * samples() * spec_.seq_len,
                             .seed = spec_.seed,
                             .decay_all = spec_.decay_all};
    int layer = 0;
    for (int c = 0; c < num_chunks(); ++c) {
      const int end = layer + spec_.layers_of_chunk[static_cast<std::size_t>(c)];
      if (spec_.stage_of_chunk[static_cast<std::size_t>(c)] == stage) {
        out.chunks.push_back({.first_layer = layer,
                              .end_layer = end,
                              .embedding = c == 0,
                              .head = c + 1 == num_chunks(),
                              .live = spec_.microbatches,
                              .deferred = spec_.microbatches});
      }
      layer = end;
    }
    return out;
  }

  int num_chunks() const { return static_cast<int>(spec_.layers_of_chunk.size()); }
  std::vector<std::unique_ptr<stages::Stage>>& stages() { return stages_; }

  /// Computes the gradients of a data step without applying them.
  StepResult gradients(const std::vector<Tokens>& batch, std::int64_t data_step = 0) {
    data_step_ = data_step;
    step_targets_ = 0;
    for (const Tokens& tokens : batch)
      step_targets_ +=
          std::ssize(tokens.targets) - std::ranges::count(tokens.targets, tensor::kNoTarget);
    StepResult result;
    result.losses.assign(batch.size(), 0);
    for (auto& stage : stages_) stage->begin_step();
    run_actions(batch, result.losses);
    exchange_tied_gradients();
    for (auto& stage : stages_) end_backward(*stage);
    result.norm = norm();
    return result;
  }

  StepResult step(const stages::OptimizerConfig& optimizer, std::int64_t number,
                  const std::vector<Tokens>& batch) {
    const StepResult result = gradients(batch, number - 1);
    const double factor = clip_factor(optimizer, result.norm);
    for (auto& stage : stages_) stage->apply(adamw_step(optimizer, number, factor));
    return result;
  }

  double evaluate(const Tokens& tokens) {
    double loss = 0;
    for (int c = 0; c < num_chunks(); ++c) {
      loss += stage_of(c).evaluate(local(c), forward_edge(c, 0), forward_edge(c + 1, 0), tokens.ids,
                                   tokens.targets, tokens.documents());
    }
    return loss;
  }

  /// The bytes of the owned parameters and their training state, by name.
  std::map<std::string, std::string> state() const {
    std::map<std::string, std::string> out;
    for (const auto& stage : stages_) {
      for (const stages::Parameter& p : stage->parameters()) {
        if (!p.owned) continue;
        for (const tensor::Tensor& t : {p.weight, p.gradient, p.exp_avg, p.exp_avg_sq}) {
          out[p.name].append(opened(t).as<char>(), t.num_bytes());
        }
      }
    }
    return out;
  }

 private:
  stages::Stage& stage_of(int chunk) {
    return *stages_[static_cast<std::size_t>(
        spec_.stage_of_chunk[static_cast<std::size_t>(chunk)])];
  }
  /// The chunk's number within its stage.
  int local(int chunk) const {
    int count = 0;
    for (int c = 0; c < chunk; ++c) {
      const auto at = [&](int i) { return spec_.stage_of_chunk[static_cast<std::size_t>(i)]; };
      if (at(c) == at(chunk)) ++count;
    }
    return count;
  }
  tensor::Tensor edge(int direction, int chunk, int microbatch) const {
    if (chunk <= 0 || chunk >= num_chunks()) return {};
    const int index = (direction * num_chunks() + chunk) * spec_.microbatches + microbatch;
    return edges_[static_cast<std::size_t>(index)].view(stages_.front()->edge_dtype(),
                                                        stages_.front()->edge_shape());
  }
  /// What `chunk` receives from the chunk before it; empty at the ends of the model.
  tensor::Tensor forward_edge(int chunk, int microbatch) const {
    return edge(0, chunk, microbatch);
  }
  /// The gradient that `chunk` sends to the chunk before it.
  tensor::Tensor backward_edge(int chunk, int microbatch) const {
    return edge(1, chunk, microbatch);
  }

  /// Samples of this replica in a step.
  std::int64_t samples() const { return spec_.microbatches * spec_.micro; }
  stages::BatchPlace place(int microbatch) const {
    return {.step = data_step_,
            .first_sample = spec_.replica * samples() + microbatch * spec_.micro};
  }

  // Slots are used in another order than microbatches, so that neither can stand in for the other.
  int slot(int microbatch) const { return spec_.microbatches - 1 - microbatch; }
  int deferred(int microbatch) const { return (microbatch + 1) % spec_.microbatches; }

  double forward(int m, const Tokens& tokens) {
    const tensor::Tensor loss = loss_.view(tensor::DType::f64, {1});
    for (int c = 0; c < num_chunks(); ++c)
      run_forward(stage_of(c), {.chunk = local(c),
                                .slot = slot(m),
                                .input = forward_edge(c, m),
                                .output = forward_edge(c + 1, m),
                                .ids = tokens.ids,
                                .targets = tokens.targets,
                                .place = place(m),
                                .documents = tokens.documents(),
                                .step_targets = spec_.replicas * step_targets_,
                                .loss = loss});
    return *loss.as<double>();
  }
  stages::BackwardCall backward_call(int c, int m, stages::Pass pass) const {
    return {.pass = pass,
            .chunk = local(c),
            .slot = slot(m),
            .deferred = deferred(m),
            .output_gradient = backward_edge(c + 1, m),
            .input_gradient = backward_edge(c, m)};
  }
  void whole_backward(int m) {
    for (int c = num_chunks(); c-- > 0;) {
      run_backward(stage_of(c), backward_call(c, m, stages::Pass::backward));
    }
  }
  void input_backward(int m) {
    for (int c = num_chunks(); c-- > 0;) {
      run_backward(stage_of(c), backward_call(c, m, stages::Pass::input_gradient));
    }
  }
  void weight_backward(int m) {
    for (int c = 0; c < num_chunks(); ++c) {
      run_backward(stage_of(c), backward_call(c, m, stages::Pass::weight_gradient));
    }
  }

  void run_actions(const std::vector<Tokens>& batch, std::vector<double>& losses) {
    const int count = spec_.microbatches;
    for (int m = 0; m < count; ++m) {
      losses[static_cast<std::size_t>(m)] = forward(m, batch[static_cast<std::size_t>(m)]);
      if (spec_.order == Order::one_by_one) whole_backward(m);
    }
    if (spec_.order == Order::one_by_one) return;
    if (spec_.order == Order::late_weights) {
      for (int m = count; m-- > 0;) input_backward(m);
      for (int m = 0; m < count; ++m) weight_backward(m);
      return;
    }
    for (int m = 0; m < count; ++m) {
      if (spec_.order == Order::all_forward || m % 2 == 0) {
        whole_backward(m);
      } else {
        input_backward(m);
        weight_backward(m);
      }
    }
  }

  void exchange_tied_gradients() {
    std::vector<tensor::Tensor> uses;
    for (auto& stage : stages_) {
      if (stage->tied_gradient()) uses.push_back(stage->tied_gradient());
    }
    if (uses.size() != 2) return;
    device_.ops().accumulate(*stream_, uses[1], uses[0]);
    device_.ops().copy(*stream_, uses[0], uses[1]);
    stream_->synchronize();
  }

  double norm() {
    std::map<std::string, double> squares;
    for (auto& stage : stages_) {
      std::vector<double> of_stage(stage->parameters().size());
      stage->squared_norms(of_stage);
      for (std::size_t i = 0; i < of_stage.size(); ++i) {
        squares[stage->parameters()[i].name] += of_stage[i];
      }
    }
    double sum = 0;
    for (const auto& info : parameters_of(spec_.model))
      if (holds_expert(info, spec_.model, spec_.sharding)) sum += squares.at(info.name);
    return std::sqrt(sum);
  }

  const PipelineSpec spec_;
  tensor::Device& device_;
  const std::unique_ptr<tensor::Stream> stream_;
  tensor::Buffer loss_;
  std::vector<std::unique_ptr<stages::Stage>> stages_;
  std::vector<tensor::Buffer> edges_;
  std::int64_t data_step_ = 0;
  std::int64_t step_targets_ = 0;
};

}  // namespace troupe::test
