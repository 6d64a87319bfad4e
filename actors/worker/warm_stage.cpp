#include "actors/worker/warm_stage.h"

#include <algorithm>
#include <exception>
#include <map>
#include <system_error>
#include <utility>

#include "actors/topology/memory/memory_plan.h"

namespace troupe::actors {

WarmStage::WarmStage(const RunSpec& spec, WorkerDevices& devices,
                     std::shared_ptr<transport::SlotPool> slots, bool shares_memory)
    : spec_(spec), devices_(devices), slots_(std::move(slots)), shares_memory_(shares_memory) {}

WarmStage::~WarmStage() {
  take();
}

void WarmStage::prepare(const WarmUp& order, const std::function<void()>& answer) {
  const std::lock_guard lock(mutex_);
  try {
    threads_.emplace_back([this, order, answer] {
      try {
        order.any_rank ? reserve_for_any(order) : build(order);
      } catch (const std::exception&) {
        // The error comes again when the configuration begins, and is reported then.
      }
      answer();
    });
  } catch (const std::system_error&) {
    answer();  // no thread is left: the configuration begins with what is built then
  }
}

void WarmStage::set_current(std::optional<RankAssembly> part) {
  const std::lock_guard lock(mutex_);
  current_ = std::move(part);
}

void WarmStage::build(const WarmUp& order) {
  RankAssembly part = part_of_run(assemble(spec_, order.shape), spec_, order.shape, order.rank);
  bool has_stage = false;
  {
    const std::lock_guard lock(mutex_);
    has_stage =
        (current_ && current_->stage == part.stage) || (built_ && built_->spec == part.stage);
    // Edges that stay keep their memory.
    std::erase_if(part.edges, [this](const transport::Edge& edge) {
      return current_ && std::ranges::find(current_->edges, edge) != current_->edges.end();
    });
  }
  tensor::Device& device = devices_.of(order.shape.mesh, part.place.stage);
  prepare_slots(slots_of(part, order.rank, device, spec_.cluster.edges));
  if (has_stage || !has_room(order.shape, order.rank)) return;
  auto state = make(part.stage, device);
  const std::lock_guard lock(mutex_);
  built_ = std::move(state);
}

/// Prepares new memory for the edges of the next configuration: the slots of the running
/// configuration are in use, and its copies must stay until all ranks have reached the next one.
void WarmStage::prepare_slots(const std::vector<std::size_t>& sizes) {
  slots_->clear();
  slots_->prepare(sizes, shares_memory_);
}

/// Prepares a spare, which does not know whose place it will take: memory pages for the largest
/// stage, the matrix products of every stage, and slots for any rank's messages.
void WarmStage::reserve_for_any(const WarmUp& order) {
  {
    const std::lock_guard lock(mutex_);
    if (reserved_for_ == order.shape) return;
  }
  const Assembly assembly = assemble(spec_, order.shape);
  std::map<tensor::Device*, std::int64_t> stage_bytes;
  std::vector<std::size_t> slots;  // the largest of all ranks, the second largest of all ranks, ...
  {
    const std::lock_guard making(making_);
    for (int rank = 0; rank < order.shape.mesh.ranks_of_replica(); ++rank) {  // replicas are alike
      const RankAssembly part = part_of_run(assembly, spec_, order.shape, rank);
      tensor::Device& device = devices_.of(order.shape.mesh, part.place.stage);
      std::int64_t& bytes = stage_bytes[&device];
      bytes = std::max(bytes, stages::plan_memory(part.stage, device).total());
      const auto sizes = slots_of(part, rank, device, spec_.cluster.edges);
      slots.resize(std::max(slots.size(), sizes.size()));
      for (std::size_t i = 0; i < sizes.size(); ++i) slots[i] = std::max(slots[i], sizes[i]);
    }
    for (const auto& [device, bytes] : stage_bytes)
      device->reserve(static_cast<std::size_t>(bytes));
    const std::lock_guard lock(mutex_);
    reserved_for_ = order.shape;
  }
  prepare_slots(slots);
}

std::shared_ptr<StageState> WarmStage::take() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  const std::lock_guard lock(mutex_);
  return std::exchange(built_, nullptr);
}

bool WarmStage::has_room(const ClusterShape& shape, int rank) const {
  const int stage = place_of(shape.mesh, rank).stage;
  const tensor::DeviceMemory memory = devices_.of(shape.mesh, stage).memory();
  if (memory.total == 0) return true;
  const RankMemory next =
      memory_of(spec_, shape, assemble(spec_, shape)).at(static_cast<std::size_t>(rank));
  const std::int64_t needed = next.device_total() - next.context;  // a context is there already
  return memory.used + static_cast<std::size_t>(needed) <= memory.total;
}

std::shared_ptr<StageState> WarmStage::make(const stages::StageSpec& stage,
                                            tensor::Device& device) {
  const std::lock_guard making(making_);
  auto state = make_state(stage, device);
  release_reserve();
  return state;
}

void WarmStage::release() {
  slots_->clear();
  release_reserve();
}

void WarmStage::release_reserve() {
  devices_.release_reserves();
  const std::lock_guard lock(mutex_);
  reserved_for_.reset();
}

}  // namespace troupe::actors
