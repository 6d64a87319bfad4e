#pragma once

#include <cstring>
#include <vector>

#include "tests/tensor/host.h"

namespace troupe::tensor {

using Ints = std::vector<std::int32_t>;

inline Ints ints_of(const Tensor& x) {
  const HostBytes bytes = Host::bytes_of(x);
  Ints values(bytes.size() / sizeof(std::int32_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A router with what it gave for random logits of some tokens.
struct Routed {
  Routed(Host& host, std::int64_t of_tokens, const RouterShape& of, const Tensor& given = {})
      : tokens(of_tokens),
        router(of),
        logits(given ? given : host.normal(DType::f32, {of_tokens, of.experts}, "logits", 2)),
        probs(host.output(DType::f32, {of_tokens, of.experts})),
        chosen(host.output(DType::i32, {of_tokens, of.chosen})),
        weights(host.output(DType::f32, {of_tokens, of.chosen})),
        lse(host.output(DType::f32, {of_tokens})) {
    host.ops().route(host.stream(), logits, router, probs, chosen, weights, lse);
  }
  std::int64_t tokens;
  RouterShape router;
  Tensor logits, probs, chosen, weights, lse;
};

}  // namespace troupe::tensor
