#include "schedules/planner/layer_costs.h"

#include <algorithm>
#include <cmath>

namespace troupe::schedules {
namespace {

/// The sizes of a shard's part of a layer.
struct Sizes {
  explicit Sizes(const Work& work)
      : shards(work.tp),
        tokens(static_cast<double>(work.tokens())),
        rows(work.sequence_parallel ? tokens / shards : tokens),
        hidden(static_cast<double>(work.hidden)),
        queries(static_cast<double>(work.heads * work.head_width) / shards),
        keys(std::max(static_cast<double>(work.kv_heads) / shards, 1.0) *
             static_cast<double>(work.head_width)),
        feed_forward(static_cast<double>(work.feed_forward) / shards),
        expert(static_cast<double>(work.expert_width) / (work.whole_experts ? 1 : shards)),
        chosen(static_cast<double>(work.chosen_experts) / (work.whole_experts ? shards : 1)),
        routed(work.routed()),
        activated((1 - routed) * feed_forward + routed * chosen * expert),
        heads(static_cast<double>(work.heads) / shards),
        sequence(static_cast<double>(work.seq_len)),
        width(static_cast<double>(work.head_width)),
        micro(static_cast<double>(work.micro)),
        vocabulary(std::ceil(static_cast<double>(work.vocabulary) / shards)) {}

  double shards, tokens, rows, hidden, queries, keys, feed_forward, expert, chosen, routed,
      activated, heads, sequence, width, micro, vocabulary;
};

/// Bytes of a dropout's mask and of what it writes, for an element of `e` bytes.
double dropout_bytes(bool has, double e) {
  return has ? 2 * e + 1 : 0;
}

struct Attention {
  double forward = 0, backward = 0;
};

Attention fused(const Sizes& of, const Operations& on) {
  const auto& device = on.machine().device;
  // Half of the scores, by the causal rule.
  const double flop = 2 * of.micro * of.heads * of.sequence * of.sequence * of.width;
  return {.forward = on.attention(flop, device.attention_forward),
          .backward = on.attention(2.5 * flop, device.attention_backward)};
}

Attention unfused(const Work& work, const Sizes& of, const Operations& on) {
  const double e = on.element_bytes(), batch = of.micro * of.heads;
  const double scores = batch * of.sequence * of.sequence;
  const double dropout = dropout_bytes(work.attention_dropout, e);
  const double products = on.product(of.sequence, of.sequence, of.width, batch) +
                          on.product(of.sequence, of.width, of.sequence, batch);
  return {.forward = products + on.stream((2 * e + dropout) * scores),
          .backward = 2 * products + on.stream((3 * e + dropout) * scores)};
}

/// Norms and the activation: what mode output computes again.
double outputs_forward(const Work& work, const Sizes& of, const Operations& on) {
  const double e = on.element_bytes();
  return on.stream(2 * 2 * e * of.rows * of.hidden, 2) +
         on.stream((1 + work.gates) * e * of.tokens * of.activated);
}

/// Everything of a layer's backward whose result is an input's gradient, but products and
/// attention.
double streams_backward(const Work& work, const Sizes& of, const Operations& on) {
  const double e = on.element_bytes(), elements = of.rows * of.hidden;
  const double dropped = work.hidden_dropout ? 1 + dropout_bytes(true, e) : 0;
  return on.stream(2 * 5 * e * elements, 2) + on.stream(2 * (3 * e + dropped) * elements, 2) +
         on.stream((1 + 2 * work.gates) * e * of.tokens * of.activated);
}

/// The products of a layer with weights of so many inputs and outputs.
struct Products {
  double forward = 0, input_gradient = 0, weight_gradient = 0;
};
Products products(const Operations& on, double tokens, double inputs, double outputs) {
  return {.forward = on.product(tokens, outputs, inputs),
          .input_gradient = on.product(tokens, inputs, outputs),
          .weight_gradient = on.weight_gradient(outputs, inputs, tokens)};
}

Products operator*(double times, const Products& a) {
  return {times * a.forward, times * a.input_gradient, times * a.weight_gradient};
}
Products operator+(const Products& a, const Products& b) {
  return {a.forward + b.forward, a.input_gradient + b.input_gradient,
          a.weight_gradient + b.weight_gradient};
}

/// The product of a feed-forward layer whose weights have so many inputs and outputs, or those of
/// the experts that a replica holds, whose rows are spread evenly over them. `wide`: the first
/// product, whose outputs are as many as the layer is wide, else the last.
Products feed_forward_product(const Work& work, const Sizes& of, const Operations& on, bool wide) {
  const auto product = [&](double rows, double width) {
    return wide ? products(on, rows, of.hidden, work.gates * width)
                : products(on, rows, width, of.hidden);
  };
  if (work.routed_layers == 0) return product(of.tokens, of.feed_forward);
  const double held = static_cast<double>(work.experts) / work.ep;
  return (1 - of.routed) * product(of.tokens, of.feed_forward) +
         of.routed * held * product(of.tokens * of.chosen / held, of.expert);
}

/// What experts take beside their products: rows gathered and added up, once each way, and with
/// several replicas the rows that travel to experts and back.
void add_routing(const Work& work, const Sizes& of, const Operations& on, PassCosts& costs) {
  if (work.routed_layers == 0) return;
  const double bytes = on.element_bytes() * of.tokens * of.chosen * of.hidden;
  const double moved = of.routed * on.stream(2 * 2 * bytes, 2);
  costs.forward += moved;
  costs.input_gradient += moved;
  const double travels =
      of.routed * 2 * on.collective(Rounds::gather, work.ep, work.tp * work.pp, bytes);
  costs.forward_wait += travels;
  costs.backward_wait += travels;
}

/// The waits for collectives of shards. `first` are the products of a layer's two column-parallel
/// weights.
void add_waits(const Work& work, const Sizes& of, const Operations& on, const Products& qkv,
               const Products& up, PassCosts& costs) {
  const auto& software = on.machine().software;
  // Experts that are whole on a shard compute its own tokens, which nothing gathers.
  const double dense = work.whole_experts ? 1 - of.routed : 1;
  const double bytes = on.element_bytes() * of.tokens * of.hidden;
  const double moved = on.collective(Rounds::gather, work.tp, 1, bytes);
  const double reduced = on.collective(Rounds::reduce, work.tp, 1, bytes);
  const auto beside = [&](double collective, double under) {
    return software.overlap_shards ? uncovered(collective, under, software.interference)
                                   : collective;
  };
  if (!work.sequence_parallel) {
    costs.forward_wait = 2 * reduced;
    costs.backward_wait =
        beside(reduced, qkv.weight_gradient) + beside(reduced, up.weight_gradient);
    return;
  }
  const auto beside_products = [&](const Products& product) {
    return beside(moved, product.input_gradient) + beside(moved, product.weight_gradient);
  };
  costs.forward_wait = (2 + 2 * dense) * moved;
  costs.backward_wait = (1 + dense) * moved;  // gathers of the output's gradient
  costs.backward_wait += beside_products(qkv);
  costs.backward_wait += dense * beside_products(up);
}

}  // namespace

PassCosts& PassCosts::operator+=(const PassCosts& other) {
  forward += other.forward;
  forward_wait += other.forward_wait;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  backward_wait += other.backward_wait;
  return *this;
}

PassCosts operator*(double times, const PassCosts& costs) {
  return {.forward = times * costs.forward,
          .forward_wait = times * costs.forward_wait,
          .input_gradient = times * costs.input_gradient,
          .weight_gradient = times * costs.weight_gradient,
          .backward_wait = times * costs.backward_wait};
}

double uncovered(double collective, double work, double interference) {
  return std::max(collective - work, interference * collective);
}

PassCosts layer_costs(const Work& work, const Operations& on, Work::Recompute recompute) {
  const Sizes of(work);
  const double e = on.element_bytes(), elements = of.rows * of.hidden;
  const bool is_fused = on.machine().software.attention == MachineModel::Attention::fused;
  const Products qkv = products(on, of.tokens, of.hidden, of.queries + 2 * of.keys);
  const Products out = products(on, of.tokens, of.queries, of.hidden);
  const Products up = feed_forward_product(work, of, on, true);
  const Products down = feed_forward_product(work, of, on, false);
  const Attention attention = is_fused ? fused(of, on) : unfused(work, of, on);
  PassCosts costs;
  for (const Products& product : {qkv, out, up, down}) {
    costs.forward += product.forward;
    costs.input_gradient += product.input_gradient;
    costs.weight_gradient += product.weight_gradient;
  }
  const double masks = work.hidden_dropout ? 1 : 0;
  costs.forward += attention.forward + outputs_forward(work, of, on) +
                   on.stream(2 * (3 * e + masks) * elements, 2);
  if (!is_fused)  // biases, and a transposition
    costs.forward += on.stream(2 * e * of.tokens * (2 * of.queries + 2 * of.keys), 2);
  costs.input_gradient += attention.backward + streams_backward(work, of, on);
  add_waits(work, of, on, qkv, up, costs);
  add_routing(work, of, on, costs);
  if (recompute == Work::Recompute::selective) costs.input_gradient += attention.forward;
  if (recompute == Work::Recompute::output) costs.input_gradient += outputs_forward(work, of, on);
  if (recompute == Work::Recompute::full) {
    costs.input_gradient += costs.forward;
    costs.backward_wait += costs.forward_wait;
  }
  return costs;
}

PassCosts embedding_costs(const Work& work, const Operations& on) {
  const Sizes of(work);
  const double e = on.element_bytes(), elements = of.tokens * of.hidden;
  const double mask = work.hidden_dropout ? of.rows * of.hidden : 0;
  const auto rounds = work.sequence_parallel ? Rounds::gather : Rounds::reduce;
  return {.forward = on.stream(2 * e * elements + mask),
          .forward_wait = on.collective(rounds, work.tp, 1, e * elements),
          .input_gradient = on.stream(4 * e * elements + mask),
          .weight_gradient = 0,
          .backward_wait = 0};
}

PassCosts head_costs(const Work& work, const Operations& on) {
  const Sizes of(work);
  const double e = on.element_bytes();
  const bool is_fused = on.machine().software.attention == MachineModel::Attention::fused;
  // A fused loss reads and writes a chunk of logits; else whole float32 logits go through memory.
  const double bytes = (is_fused ? 12 : 36) * of.tokens * of.vocabulary;
  constexpr double kForward = 0.6;
  const Products product = products(on, of.tokens, of.hidden, of.vocabulary);
  const double numbers = on.collective(Rounds::reduce, work.tp, 1, sizeof(float) * of.tokens);
  return {.forward = product.forward + on.stream(kForward * bytes) +
                     on.stream(2 * e * of.rows * of.hidden),
          .forward_wait = 3 * numbers,
          .input_gradient = product.input_gradient + on.stream((1 - kForward) * bytes) +
                            on.stream(5 * e * of.rows * of.hidden),
          .weight_gradient = product.weight_gradient,
          .backward_wait = on.collective(Rounds::reduce, work.tp, 1, e * of.tokens * of.hidden)};
}

}  // namespace troupe::schedules
