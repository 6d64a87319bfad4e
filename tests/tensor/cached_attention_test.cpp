#include <cmath>
#include <limits>
#include <random>

#include "tensor/device/attention.h"
#include "tensor/errors/error.h"
#include "tests/support/seed.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(cached_attention_test)

namespace {

/// A token of a sequence, as a row of a call; sequence -1 is padding.
struct Token {
  std::int32_t sequence = -1, position = 0;
};
using Call = std::vector<Token>;

/// One layer whose cache is full of NaNs at first, and random qkv rows that follow from sequence
/// and position.
class Layer {
 public:
  /// The first `rotary_dim` elements of a head turn.
  Layer(Host& host, const CachedAttentionShape& shape, std::int64_t rotary_dim)
      : host_(host),
        shape_(shape),
        rotary_dim_(rotary_dim),
        attention_(host.device().make_cached_attention(shape)),
        cache_(host.output(shape.dtype, {attention_->cache_elements()})),
        scratch_(host.output(DType::bf16,
                             {static_cast<std::int64_t>(attention_->scratch_bytes() / 2)})) {
    attention_->set_scratch(scratch_.data);
    const std::int64_t columns = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    for (std::int64_t b = 0; b < shape.sequences; ++b)
      qkv_.push_back(Host::read(
          host.normal(shape.dtype, {shape.capacity, columns}, "sequence " + std::to_string(b))));
  }

  /// The rows' results, H*D each.
  Tensor forward(const Call& call) {
    const auto rows = static_cast<std::int64_t>(call.size()), half = rotary_dim_ / 2;
    Values qkv, cos, sin;
    std::vector<std::int32_t> sequences, positions;
    for (const auto& [sequence, position] : call) {
      const auto b = static_cast<std::size_t>(std::max(sequence, 0));
      const auto columns = static_cast<std::ptrdiff_t>(qkv_[b].size()) / shape_.capacity;
      const auto begin = qkv_[b].begin() + position * columns;
      qkv.insert(qkv.end(), begin, begin + columns);
      sequences.push_back(sequence);
      positions.push_back(position);
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = angle_of(position, i);
        cos.push_back(std::cos(angle));
        sin.push_back(std::sin(angle));
      }
    }
    const std::int64_t columns = static_cast<std::int64_t>(qkv.size()) / rows;
    CachedTokens tokens{.sequences = host_.ids(sequences), .positions = host_.ids(positions)};
    if (half > 0) {
      tokens.cos = host_.of(DType::f32, {rows, half}, cos);
      tokens.sin = host_.of(DType::f32, {rows, half}, sin);
    }
    const Tensor out = host_.output(shape_.dtype, {rows, shape_.heads * shape_.head_dim});
    attention_->forward(host_.stream(), host_.of(shape_.dtype, {rows, columns}, qkv), tokens,
                        cache_, out);
    return out;
  }

  /// The results of all positions of a sequence, in double precision.
  Values expected(std::int64_t sequence) const {
    const auto index = [](std::int64_t x) { return static_cast<std::size_t>(x); };
    reference::AttentionDims dims;
    dims.seq_len = index(shape_.capacity);
    dims.heads = index(shape_.heads);
    dims.kv_heads = index(shape_.kv_heads);
    dims.head_dim = index(shape_.head_dim);
    dims.rotary = std::nullopt;
    dims.window = index(shape_.window);
    dims.scale = shape_.scale;
    dims.cap = shape_.cap;
    Values qkv = qkv_[index(sequence)];
    rotate(qkv);
    return reference::attention(qkv, dims).out;
  }

 private:
  static double angle_of(std::int64_t position, std::int64_t pair) {
    return static_cast<double>(position) / (1.0 + 7.0 * static_cast<double>(pair));
  }

  void rotate(Values& qkv) const {
    const std::int64_t d = shape_.head_dim, half = rotary_dim_ / 2,
                       all = shape_.heads + 2 * shape_.kv_heads;
    for (std::int64_t s = 0; s < shape_.capacity; ++s) {
      for (std::int64_t head = 0; head < shape_.heads + shape_.kv_heads; ++head) {
        double* x = &qkv[static_cast<std::size_t>((s * all + head) * d)];
        for (std::int64_t i = 0; i < half; ++i) {
          const double c = std::cos(angle_of(s, i)), n = std::sin(angle_of(s, i));
          const double a = x[i], b = x[i + half];
          x[i] = a * c - b * n;
          x[i + half] = b * c + a * n;
        }
      }
    }
  }

  Host& host_;
  const CachedAttentionShape shape_;
  const std::int64_t rotary_dim_;
  const std::unique_ptr<CachedAttention> attention_;
  const Tensor cache_, scratch_;
  std::vector<Values> qkv_;
};

/// The tokens of all sequences in calls of at most shape.rows: pieces of random length of randomly
/// chosen sequences, which may follow each other, with padding between some.
std::vector<Call> random_calls(const CachedAttentionShape& shape, std::mt19937_64& random) {
  std::vector<Call> calls;
  std::vector<std::int32_t> next(static_cast<std::size_t>(shape.sequences));
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (std::int64_t left = shape.sequences * shape.capacity; left > 0;) {
    Call& call = calls.emplace_back();
    const auto room = [&] { return shape.rows - static_cast<std::int64_t>(call.size()); };
    for (std::int64_t pieces = 1 + below(4); pieces > 0 && room() > 0; --pieces) {
      const std::int64_t b = below(shape.sequences);
      std::int32_t& position = next[static_cast<std::size_t>(b)];
      const std::int64_t most = std::min(room(), shape.capacity - position);
      const std::int64_t count = std::min(most, 1 + below(below(2) == 0 ? 3 : most + 1));
      for (std::int64_t i = 0; i < count; ++i, --left)
        call.push_back({static_cast<std::int32_t>(b), position++});
      if (room() > 0 && below(3) == 0) call.push_back({});
    }
    if (call.empty()) calls.pop_back();
  }
  return calls;
}

void check_random_calls(Host& host, const CachedAttentionShape& shape, std::int64_t rotary_dim,
                        std::uint64_t seed) {
  BOOST_TEST_CONTEXT("H " << shape.heads << " K " << shape.kv_heads << " D " << shape.head_dim) {
    std::mt19937_64 random(seed);
    Layer layer(host, shape, rotary_dim);
    const auto width = static_cast<std::size_t>(shape.heads * shape.head_dim);
    std::vector<Values> got(static_cast<std::size_t>(shape.sequences));
    for (const Call& call : random_calls(shape, random)) {
      const Values out = Host::read(layer.forward(call));
      for (std::size_t row = 0; row < call.size(); ++row) {
        const auto begin = out.begin() + static_cast<std::ptrdiff_t>(row * width);
        const auto end = begin + static_cast<std::ptrdiff_t>(width);
        if (call[row].sequence < 0) {
          BOOST_TEST(std::all_of(begin, end, [](double x) { return x == 0; }), "row of no token");
          continue;
        }
        Values& all = got[static_cast<std::size_t>(call[row].sequence)];
        all.insert(all.end(), begin, end);
      }
    }
    for (std::int64_t b = 0; b < shape.sequences; ++b)
      check_near(got[static_cast<std::size_t>(b)], layer.expected(b), tolerance_of(shape.dtype));
  }
}

BOOST_AUTO_TEST_CASE(agrees_with_the_reference_however_tokens_are_divided_among_calls) {
  const std::uint64_t seed = test::fresh_seed();
  for_each_setup([&](DType dtype, Host& host) {
    for (const auto& [heads, kv_heads, head_dim] :
         {std::tuple{2, 2, 16}, {6, 2, 10}, {4, 1, 64}, {3, 3, 96}, {1, 1, 136}})
      check_random_calls(host,
                         {.rows = 40,
                          .sequences = 3,
                          .capacity = 36,
                          .heads = heads,
                          .kv_heads = kv_heads,
                          .head_dim = head_dim,
                          .dtype = dtype},
                         head_dim, seed);
  });
}

BOOST_AUTO_TEST_CASE(agrees_with_the_reference_without_rotation) {
  const std::uint64_t seed = test::fresh_seed();
  for_each_setup([&](DType dtype, Host& host) {
    check_random_calls(host,
                       {.rows = 70,
                        .sequences = 2,
                        .capacity = 150,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 7,
                        .dtype = dtype},
                       0, seed);
  });
}

BOOST_AUTO_TEST_CASE(agrees_with_the_reference_within_windows_and_caps_and_turning_a_part) {
  const std::uint64_t seed = test::fresh_seed();
  for_each_setup([&](DType dtype, Host& host) {
    for (const auto& [window, scale, cap, rotary_dim] : {std::tuple{1, 0.0f, 0.0f, 16},
                                                         {16, 0.1f, 0.0f, 12},
                                                         {40, 0.0f, 1.5f, 2},
                                                         {130, 0.5f, 4.0f, 0},
                                                         {0, 0.0f, 2.0f, 16},
                                                         {1000, 0.0f, 0.0f, 8}})
      check_random_calls(host,
                         {.rows = 70,
                          .sequences = 2,
                          .capacity = 200,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 16,
                          .dtype = dtype,
                          .window = window,
                          .scale = scale,
                          .cap = cap},
                         rotary_dim, seed);
  });
}

/// The rows of one sequence, each the bits of its result, from calls that hold more.
std::vector<HostBytes> rows_of(Layer& layer, std::int32_t sequence,
                               const std::vector<Call>& calls) {
  std::vector<HostBytes> rows;
  for (const Call& call : calls) {
    const HostBytes out = Host::bytes_of(layer.forward(call));
    const auto width = static_cast<std::ptrdiff_t>(out.size() / call.size());
    for (std::size_t row = 0; row < call.size(); ++row) {
      const auto begin = out.begin() + static_cast<std::ptrdiff_t>(row) * width;
      if (call[row].sequence == sequence) rows.emplace_back(begin, begin + width);
    }
  }
  return rows;
}

BOOST_AUTO_TEST_CASE(a_sequence_has_the_same_bits_alone_and_among_others_and_token_by_token) {
  const std::uint64_t seed = test::fresh_seed();
  for (const std::int64_t window : {0, 11})
    for_each_setup([&](DType dtype, Host& host) {
      std::mt19937_64 random(seed);
      const CachedAttentionShape shape{.rows = 60,
                                       .sequences = 3,
                                       .capacity = 40,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 24,
                                       .dtype = dtype,
                                       .window = window};
      Call whole;
      std::vector<Call> single;
      for (std::int32_t position = 0; position < shape.capacity; ++position) {
        whole.push_back({1, position});
        single.push_back({{1, position}});
      }
      Layer layer(host, shape, shape.head_dim);
      const std::vector<HostBytes> alone = rows_of(layer, 1, {whole});
      // Again from position 0 on, over what the cache holds.
      BOOST_TEST((rows_of(layer, 1, single) == alone));
      BOOST_TEST((rows_of(layer, 1, random_calls(shape, random)) == alone));
    });
}

/// Of few rows a device may divide the keys.
BOOST_AUTO_TEST_CASE(single_tokens_of_long_and_short_sequences_have_the_bits_of_a_prompt) {
  for (const std::int64_t window : {0, 100})
    for_each_setup([&](DType dtype, Host& host) {
      const CachedAttentionShape shape{.rows = 600,
                                       .sequences = 3,
                                       .capacity = 264,
                                       .heads = 1,
                                       .kv_heads = 1,
                                       .head_dim = 8,
                                       .dtype = dtype,
                                       .window = window};
      Layer layer(host, shape, shape.head_dim);
      Call prompts;
      for (std::int32_t sequence = 0; sequence < 3; ++sequence) {
        const std::int32_t last = std::vector{263, 0, 128}.at(static_cast<std::size_t>(sequence));
        for (std::int32_t position = 0; position <= last; ++position)
          prompts.push_back({sequence, position});
      }
      prompts.resize(static_cast<std::size_t>(shape.rows));  // the rest is padding
      const Tensor all = layer.forward(prompts);
      const auto bits_in = [](const Tensor& out, std::size_t row) {
        const HostBytes bytes = Host::bytes_of(out);
        const auto width = bytes.size() / static_cast<std::size_t>(out.shape[0]);
        const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(row * width);
        return HostBytes(begin, begin + static_cast<std::ptrdiff_t>(width));
      };
      for (const std::size_t position : {0u, 127u, 128u, 255u, 256u, 263u})
        BOOST_TEST((bits_in(layer.forward({{0, static_cast<std::int32_t>(position)}}), 0) ==
                    bits_in(all, position)),
                   "position " << position);
      const Tensor together = layer.forward({{2, 128}, {}, {0, 263}, {1, 0}});
      BOOST_TEST((bits_in(together, 0) == bits_in(all, 264 + 1 + 128)));
      BOOST_TEST((bits_in(together, 1) == bits_in(all, 599)), "a row of no token");
      BOOST_TEST((bits_in(together, 2) == bits_in(all, 263)));
      BOOST_TEST((bits_in(together, 3) == bits_in(all, 264)));
      const Values out = Host::read(together), expected = layer.expected(0);
      check_near(Values(out.begin() + 16, out.begin() + 24),
                 Values(expected.end() - 8, expected.end()), tolerance_of(dtype));
    });
}

BOOST_AUTO_TEST_CASE(refuses_shapes_that_have_no_meaning) {
  Host host(1);
  const CachedAttentionShape good{
      .rows = 1, .sequences = 1, .capacity = 1, .heads = 4, .kv_heads = 2, .head_dim = 8};
  const auto refused = [&](const auto& spoil) {
    CachedAttentionShape shape = good;
    spoil(shape);
    BOOST_CHECK_EXCEPTION(host.device().make_cached_attention(shape), Error,
                          [](const Error& error) { return error.kind() == ErrorKind::manifest; });
  };
  using Shape = CachedAttentionShape;
  for (std::int64_t Shape::*field : {&Shape::rows, &Shape::sequences, &Shape::capacity,
                                     &Shape::heads, &Shape::kv_heads, &Shape::head_dim})
    refused([field](Shape& shape) { shape.*field = 0; });
  refused([](Shape& shape) { shape.kv_heads = 3; });
  refused([](Shape& shape) { shape.dtype = DType::i32; });
  refused([](Shape& shape) { shape.window = -1; });
  refused([](Shape& shape) { shape.cap = -1; });
  refused([](Shape& shape) { shape.scale = std::numeric_limits<float>::infinity(); });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
