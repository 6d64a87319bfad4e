#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "actors/topology/state/state_plan.h"
#include "stages/model/model_config.h"
#include "stages/model/sharding.h"
#include "stages/stage/stage.h"
#include "tensor/device/device.h"
#include "tensor/device/host_copies.h"

namespace troupe::actors {

/// Tensors that count as one, the elements of one after those of the other, all float32.
class TensorRow {
 public:
  void add(const tensor::Tensor& x);
  void add(const TensorRow& row);
  void clear();
  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }  ///< number of elements
  /// A row with the elements [begin, begin + count) of this one.
  TensorRow part(std::int64_t begin, std::int64_t count) const;
  std::span<const tensor::Tensor> tensors() const { return tensors_; }
  /// Copies the elements [begin, begin + piece.num_elements()), in memory of a device, to `piece`
  /// in host memory; write() copies them from it (HostCopies::read, HostCopies::write).
  void read(tensor::HostCopies& copies, std::int64_t begin, const tensor::Tensor& piece) const;
  void write(tensor::HostCopies& copies, std::int64_t begin, const tensor::Tensor& piece) const;
  /// read() of a row that lies in host memory.
  void read_host(std::int64_t begin, const tensor::Tensor& piece) const;
  /// Queues the copies of these elements to `to`; both lie in memory of the stream's device, or
  /// pinned.
  void copy(tensor::Stream& stream, std::int64_t begin, const tensor::Tensor& to) const;

 private:
  template <typename Copy>
  void each_part(std::int64_t begin, std::int64_t count, const Copy& copy) const;

  std::vector<tensor::Tensor> tensors_;
  std::vector<std::int64_t> ends_;  ///< by tensor: the row's elements up to its end
};

/// A part of the training state of a parameter in some memory: the weight and both moments, of
/// which a frozen one has none. Each tensor holds the elements of `region` row by row, and maybe
/// padding after them.
struct ParameterState {
  stages::ParameterInfo info;
  tensor::Region region;
  std::array<TensorRow, kMostStateTensors> tensors;

  std::span<TensorRow> present() { return std::span(tensors).first(count()); }
  std::span<const TensorRow> present() const { return std::span(tensors).first(count()); }

 private:
  std::size_t count() const { return static_cast<std::size_t>(num_state_tensors(info)); }
};
/// A unit's parameters (actors/topology/state/state_plan.h), or a part of them.
using UnitState = std::vector<ParameterState>;

/// Whose slices of a stage's parameters: its replica's own, or those that it keeps for another.
enum class Kept { own, twin };
/// What the stage keeps of them, by unit.
std::map<int, UnitState> units_in(const stages::Stage& stage, const stages::ModelConfig& model,
                                  Kept kept);
/// Views of a shard's part of these units, by unit. They lie one after the other in `memory`.
std::map<int, UnitState> units_in(const TensorRow& memory, std::span<const int> units,
                                  const stages::ModelConfig& model,
                                  const stages::Sharding& sharding);
/// The state of a rank that NeighbourCopies has put into `memory`, by part: views of it.
std::map<int, std::map<int, UnitState>> parts_in(const TensorRow& memory, const RunSpec& spec,
                                                 const ClusterShape& shape, int rank);
/// The elements of these regions of the unit's parameters, in one row that is the same wherever the
/// unit lies. The unit holds them.
TensorRow moved_row(const UnitState& unit,
                    const std::function<tensor::Region(const stages::ParameterInfo&)>& region_of);

/// A view of `count` elements of x from `begin` on.
tensor::Tensor slice(const tensor::Tensor& x, std::int64_t begin, std::int64_t count);

}  // namespace troupe::actors
