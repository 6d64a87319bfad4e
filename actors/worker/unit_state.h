#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "stages/model_config.h"
#include "stages/stage.h"
#include "tensor/device.h"

namespace troupe::actors {

/// Tensors that are sent one after the other, all float32: the weight and both moments of each
/// parameter.
class TensorRow {
 public:
  void add(const tensor::Tensor& x);
  void clear();
  std::int64_t size() const { return size_; }  ///< number of elements
  /// A row with the elements [begin, begin + count) of this one.
  TensorRow part(std::int64_t begin, std::int64_t count) const;
  std::span<const tensor::Tensor> tensors() const { return tensors_; }
  /// Copies the elements [begin, begin + piece.num_elements()) into `piece`; write() copies them
  /// from it.
  void read(tensor::Device& device, tensor::Stream& stream, std::int64_t begin,
            const tensor::Tensor& piece) const;
  void write(tensor::Device& device, tensor::Stream& stream, std::int64_t begin,
             const tensor::Tensor& piece) const;

 private:
  template <typename Copy>
  void each_part(std::int64_t begin, std::int64_t count, const Copy& copy) const;

  std::vector<tensor::Tensor> tensors_;
  std::int64_t size_ = 0;
};

/// The state of each unit (actors/topology/state_plan.h) that the stage holds, by unit.
std::map<int, TensorRow> units_in(const stages::Stage& stage, const stages::ModelConfig& model);
/// Views of these units' tensors, by unit. They lie one after the other in `memory`.
std::map<int, TensorRow> units_in(const TensorRow& memory, std::span<const int> units,
                                  const stages::ModelConfig& model);

/// A view of `count` elements of x from `begin` on.
tensor::Tensor slice(const tensor::Tensor& x, std::int64_t begin, std::int64_t count);

}  // namespace troupe::actors
