#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "stages/stage/stage.h"
#include "tensor/values/random.h"

namespace troupe::test {

/// A tensor that a neighbour would send or receive.
class EdgeMessage {
 public:
  EdgeMessage(const stages::Stage& stage, std::uint64_t seed)
      : bytes_(static_cast<std::size_t>(stage.edge_shape().num_elements()) *
                   size_of(stage.edge_dtype()),
               '\0') {
    const tensor::Random random(seed, "message");
    const tensor::Tensor all = in(stage);
    for (std::int64_t i = 0; i < all.num_elements(); ++i) {
      const auto value = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
      if (all.dtype == tensor::DType::f32) all.as<float>()[i] = value;
      if (all.dtype == tensor::DType::bf16)
        all.as<tensor::BFloat16>()[i] = tensor::to_bfloat16(value);
    }
  }
  tensor::Tensor in(const stages::Stage& stage) {
    return {bytes_.data(), stage.edge_dtype(), stage.edge_shape()};
  }
  /// Returns the bytes and then overwrites them, as another owner of the buffer might.
  std::string take() {
    std::string bytes = bytes_;
    std::memset(bytes_.data(), 0x55, bytes_.size());
    return bytes;
  }

 private:
  std::string bytes_;
};

}  // namespace troupe::test
