// Compares the reference of the other tests with central differences of itself.

#include <boost/test/unit_test.hpp>
#include <functional>

#include "tensor/values/random.h"
#include "tests/support/reference_gpt2_ops.h"

namespace troupe::reference {

BOOST_AUTO_TEST_SUITE(reference_test)

namespace {

Values draw(Index count, std::string_view name) {
  const tensor::Random random(11, name);
  Values values(count);
  for (Index i = 0; i < count; ++i) values[i] = random.normal(i);
  return values;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Compares `gradient` with the slopes of objective at x.
void check_gradient(Values x, const Values& gradient,
                    const std::function<double(const Values&)>& objective) {
  constexpr double kStep = 1e-5;
  BOOST_REQUIRE_EQUAL(x.size(), gradient.size());
  for (Index i = 0; i < x.size(); ++i) {
    const double middle = x[i];
    x[i] = middle + kStep;
    const double above = objective(x);
    x[i] = middle - kStep;
    const double below = objective(x);
    x[i] = middle;
    BOOST_TEST(std::abs(gradient[i] - (above - below) / (2 * kStep)) < 1e-7);
  }
}

BOOST_AUTO_TEST_CASE(linear_gradients) {
  const Values x = draw(3 * 4, "x"), w = draw(5 * 4, "w"), dy = draw(3 * 5, "dy");
  const LinearGradient g = linear_backward(dy, x, w, 3, 4, 5);
  check_gradient(x, g.dx, [&](const Values& at) { return dot(linear(at, w, 3, 4, 5), dy); });
  check_gradient(w, g.dw, [&](const Values& at) { return dot(linear(x, at, 3, 4, 5), dy); });
}

BOOST_AUTO_TEST_CASE(rms_norm_gradients) {
  const Values x = draw(3 * 6, "x"), w = draw(6, "w"), dy = draw(3 * 6, "dy");
  const NormGradient g = rms_norm_backward(dy, x, w, 1e-5);
  check_gradient(x, g.dx, [&](const Values& at) { return dot(rms_norm(at, w, 1e-5), dy); });
  check_gradient(w, g.dw, [&](const Values& at) { return dot(rms_norm(x, at, 1e-5), dy); });
}

BOOST_AUTO_TEST_CASE(layer_norm_gradients) {
  const Values x = draw(3 * 6, "x"), w = draw(6, "w"), b = draw(6, "b"), dy = draw(3 * 6, "dy");
  const LayerNormGradient g = layer_norm_backward(dy, x, w, 1e-5);
  check_gradient(x, g.dx, [&](const Values& at) { return dot(layer_norm(at, w, b, 1e-5), dy); });
  check_gradient(w, g.dw, [&](const Values& at) { return dot(layer_norm(x, at, b, 1e-5), dy); });
  check_gradient(b, g.db, [&](const Values& at) { return dot(layer_norm(x, w, at, 1e-5), dy); });
}

BOOST_AUTO_TEST_CASE(bias_gradients) {
  const Values y = draw(3 * 6, "y"), b = draw(6, "b"), dy = draw(3 * 6, "dy");
  check_gradient(b, bias_gradient(dy, 6),
                 [&](const Values& at) { return dot(add_bias(y, at), dy); });
}

BOOST_AUTO_TEST_CASE(swiglu_gradients) {
  const Values x = draw(3 * 10, "x"), dy = draw(3 * 5, "dy");
  check_gradient(x, swiglu_backward(x, dy, 3, 5),
                 [&](const Values& at) { return dot(swiglu(at, 3, 5), dy); });
}

BOOST_AUTO_TEST_CASE(gelu_gradients) {
  const Values x = draw(40, "x"), dy = draw(40, "dy");
  check_gradient(x, gelu_backward(x, dy), [&](const Values& at) { return dot(gelu(at), dy); });
}

BOOST_AUTO_TEST_CASE(embedding_gradients) {
  const std::vector<std::int32_t> ids{2, 0, 2};
  const Values table = draw(4 * 3, "table"), dx = draw(3 * 3, "dx");
  check_gradient(table, embedding_backward(ids, dx, 4, 3),
                 [&](const Values& at) { return dot(embedding(ids, at, 3), dx); });
}

BOOST_AUTO_TEST_CASE(position_gradients) {
  const Values x = draw(5 * 3, "x"), positions = draw(4 * 3, "positions"), dx = draw(5 * 3, "dx");
  check_gradient(positions, positions_backward(dx, 2, 4, 3),
                 [&](const Values& at) { return dot(add_positions(x, at, 2, 3), dx); });
}

BOOST_AUTO_TEST_CASE(cross_entropy_gradients) {
  const std::vector<std::int32_t> targets{1, 4};
  const Values logits = draw(2 * 5, "logits");
  check_gradient(logits, cross_entropy(logits, targets, 5, 0.5).dlogits,
                 [&](const Values& at) { return 0.5 * cross_entropy(at, targets, 5, 1).loss; });
}

BOOST_AUTO_TEST_CASE(attention_gradients) {
  const AttentionDims dims{.batch = 2, .seq_len = 4, .heads = 4, .kv_heads = 2, .head_dim = 4};
  const Values qkv = draw(2 * 4 * dims.row(), "qkv"), dout = draw(2 * 4 * 4 * 4, "dout");
  check_gradient(qkv, attention_backward(dout, qkv, dims),
                 [&](const Values& at) { return dot(attention(at, dims).out, dout); });
}

BOOST_AUTO_TEST_CASE(dropped_attention_gradients) {
  AttentionDims dims{.batch = 2, .seq_len = 4, .heads = 4, .kv_heads = 2, .head_dim = 4};
  dims.factors = draw(4 * 2 * 4 * 4, "factors");
  const Values qkv = draw(2 * 4 * dims.row(), "qkv"), dout = draw(2 * 4 * 4 * 4, "dout");
  check_gradient(qkv, attention_backward(dout, qkv, dims),
                 [&](const Values& at) { return dot(attention(at, dims).out, dout); });
}

BOOST_AUTO_TEST_CASE(masked_attention_gradients) {
  AttentionDims dims{.batch = 2, .seq_len = 4, .heads = 4, .kv_heads = 2, .head_dim = 4};
  dims.rotary.reset();
  dims.causal = false;
  dims.mask = draw(2 * 4 * 4, "mask");
  for (const Index hidden : {1, 6, 20, 21, 22, 23})  // among them all keys of one query
    dims.mask[hidden] = -std::numeric_limits<double>::infinity();
  const Values qkv = draw(2 * 4 * dims.row(), "qkv"), dout = draw(2 * 4 * 4 * 4, "dout");
  check_gradient(qkv, attention_backward(dout, qkv, dims),
                 [&](const Values& at) { return dot(attention(at, dims).out, dout); });
}

// Rotation encodes relative positions: the score of two positions depends on their distance alone.
BOOST_AUTO_TEST_CASE(rotation_keeps_scores_of_equal_distances) {
  const AttentionDims dims{.seq_len = 6, .heads = 1, .kv_heads = 1, .head_dim = 4};
  Values qkv;
  const Values head = draw(2 * 4, "head");
  for (int s = 0; s < 6; ++s) {
    qkv.insert(qkv.end(), head.begin(), head.end());
    qkv.insert(qkv.end(), 4, 0.0);
  }
  rotate(qkv, dims, 1);
  const auto score = [&](Index query, Index key) {
    double sum = 0;
    for (Index d = 0; d < 4; ++d) {
      sum += qkv[dims.query(0, query, 0) + d] * qkv[dims.key(0, key, 0) + d];
    }
    return sum;
  };
  BOOST_TEST(score(5, 3) == score(2, 0), boost::test_tools::tolerance(1e-6));
  BOOST_TEST(std::abs(score(5, 3) - score(5, 2)) > 1e-3);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::reference
