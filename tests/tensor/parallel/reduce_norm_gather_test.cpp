#include "tensor/parallel/reduce_norm_gather.h"

#include <functional>

#include "tensor/parallel/division.h"
#include "tests/tensor/shards.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(reduce_norm_gather_test)

namespace {

constexpr std::int64_t kTokens = 12, kChannels = 20;
constexpr float kEps = 1e-5f;

/// Which parameters a product and a norm have.
struct Kind {
  bool bias = false, layer_norm = false, norm = true;
  float plus = 0;
};
const std::vector<Kind> kKinds{
    {}, {.bias = true, .layer_norm = true}, {.bias = true}, {.norm = false}, {.plus = 1}};

/// What a shard ends with: the sum of all tokens, and the norm.
struct Result {
  HostBytes sum, normed;
  bool operator==(const Result&) const = default;
};

/// What both ways begin with, on one shard.
struct Inputs {
  Inputs(Host& host, DType dtype, int shard, const Kind& kind)
      : partial(host.normal(dtype, {kTokens, kChannels}, "partial " + std::to_string(shard))),
        residual(host.normal(dtype, {kTokens, kChannels}, "residual")),
        bias(kind.bias ? host.normal(DType::f32, {kChannels}, "bias") : Tensor{}),
        weight(kind.norm ? host.normal(DType::f32, {kChannels}, "weight") : Tensor{}),
        shift(kind.layer_norm ? host.normal(DType::f32, {kChannels}, "shift") : Tensor{}),
        normed(host.output(dtype, {kTokens, kChannels})) {}
  Tensor partial, residual, bias, weight, shift, normed;
};

Result by_all_reduce(Host& host, ProcessGroup& group, DType dtype, const Kind& kind) {
  const Inputs x(host, dtype, group.member(), kind);
  Ops& ops = host.ops();
  Stream& stream = host.stream();
  group.all_reduce(stream, x.partial)->wait(stream);
  if (x.bias)
    ops.add_bias(stream, x.bias, x.partial, x.residual);
  else
    ops.accumulate(stream, x.residual, x.partial);
  const Tensor rstd = host.output(DType::f32, {kTokens}), mean = host.output(DType::f32, {kTokens});
  if (!kind.norm)
    ops.copy(stream, x.partial, x.normed);
  else if (kind.layer_norm)
    ops.layer_norm(stream, x.partial, x.weight, x.shift, kEps, x.normed, mean, rstd);
  else
    ops.rms_norm(stream, x.partial, x.weight, kEps, kind.plus, x.normed, rstd);
  return {.sum = Host::bytes_of(x.partial), .normed = Host::bytes_of(x.normed)};
}

/// `in_place`: the sum stands where the shard's tokens of the parts were.
Result by_parts(Host& host, ProcessGroup& group, DType dtype, const Kind& kind, bool in_place) {
  const Inputs x(host, dtype, group.member(), kind);
  const std::int64_t tokens = kTokens / group.size();
  const auto own = [&](const Tensor& all) {
    return row_view(all, group.member() * tokens, tokens);
  };
  const Tensor sum = in_place ? own(x.partial) : host.output(dtype, {tokens, kChannels});
  reduce_norm_gather(host.stream(), host.ops(), group,
                     {.partial = x.partial,
                      .bias = x.bias,
                      .residual = own(x.residual),
                      .sum = sum,
                      .weight = x.weight,
                      .shift = x.shift,
                      .eps = kEps,
                      .plus = kind.plus,
                      .mean = kind.layer_norm ? host.output(DType::f32, {tokens}) : Tensor{},
                      .rstd = host.output(DType::f32, {tokens}),
                      .normed = x.normed});
  const Tensor all = host.output(dtype, {kTokens, kChannels});
  group.all_gather(host.stream(), sum, all)->wait(host.stream());
  return {.sum = Host::bytes_of(all), .normed = Host::bytes_of(x.normed)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(has_the_bits_of_an_all_reduce_and_the_norm_of_all_tokens) {
  for_each_group([](int size, Moves moves) {
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Kind& kind : kKinds)
        for (const bool in_place : {false, true}) {
          const auto whole = on_shards(size, moves, [&](Host& host, ProcessGroup& group) {
            return by_all_reduce(host, group, dtype, kind);
          });
          const auto parts = on_shards(size, moves, [&](Host& host, ProcessGroup& group) {
            return by_parts(host, group, dtype, kind, in_place);
          });
          BOOST_TEST((parts == whole), kind.bias << kind.layer_norm << kind.norm << in_place);
        }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
