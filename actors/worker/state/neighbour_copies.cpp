#include "actors/worker/state/neighbour_copies.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "actors/topology/state/state_parts.h"
#include "tensor/device/host_memory.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

std::uint64_t sum_of(const tensor::Tensor& piece) {
  return XXH3_64bits(piece.as<float>(), piece.num_bytes());
}

std::vector<Kept> kept_of(const stages::StateSharding& state) {
  if (state.count == 1) return {};
  std::vector<Kept> kept{Kept::own};
  if (state.twin() >= 0) kept.push_back(Kept::twin);
  return kept;
}

}  // namespace

NeighbourCopies::NeighbourCopies(const RunSpec& spec, const ClusterShape& shape, int rank,
                                 int source, tensor::Device& device, transport::Channel& channel)
    : spec_(spec),
      copies_(device),
      channel_(channel),
      rank_(rank),
      before_(source),
      size_before_(source < 0 ? 0
                              : size_of_units(units_of(spec, shape, source), spec.model,
                                              sharding_of(shape, source))),
      is_copied_(is_copied(shape, rank)),
      kept_(kept_of(state_sharding_of(spec, shape, rank))) {}

transport::MessageKey NeighbourCopies::key(int rank, std::int64_t step, std::int64_t piece) const {
  return {.step = static_cast<std::uint64_t>(step),
          .microbatch = static_cast<int>(piece),
          .chunk = chunk_of_copy(rank, turn_of(step)),
          .direction = transport::Direction::state};
}

void NeighbourCopies::use(const stages::Stage& stage) {
  row_.clear();
  for (const Kept kept : kept_) use_slices(stage, kept);
  if (!kept_.empty()) return;
  for (const stages::Parameter& parameter : stage.parameters()) {
    if (parameter.update.is_base) continue;
    for (const auto* x : {&parameter.weight, &parameter.exp_avg, &parameter.exp_avg_sq})
      row_.add(*x);
  }
}

/// Adds the slices that the stage keeps, without padding.
void NeighbourCopies::use_slices(const stages::Stage& stage, Kept kept) {
  const bool is_twin = kept == Kept::twin;
  for (const stages::Parameter& parameter : stage.parameters()) {
    if (parameter.update.is_base) continue;
    const int number = is_twin ? parameter.twin_slice : parameter.slice;
    const std::int64_t elements = parameter.region_of(number).num_elements();
    const auto add = [&](const tensor::Tensor& own, const tensor::Tensor& twin) {
      row_.add(slice(is_twin ? twin : own, 0, elements));
    };
    if (elements == 0) continue;
    add(parameter.kept_weight, parameter.twin_weight);
    if (parameter.update.frozen) continue;
    add(parameter.exp_avg, parameter.twin_exp_avg);
    add(parameter.exp_avg_sq, parameter.twin_exp_avg_sq);
  }
}

void NeighbourCopies::send(const stages::Stage& stage, std::int64_t step) {
  // The step is committed, so every rank holds the copy before, and older copies are not needed.
  drop_before(sent_);
  sent_ = step;
  if (!is_copied_ && !keeps_own()) return;
  use(stage);
  if (keeps_own()) keep_own(step);
  if (!is_copied_) return;
  for (std::int64_t begin = 0, i = 0; begin < row_.size(); begin += kPieceElements, ++i) {
    const tensor::Tensor buffer = channel_.acquire(key(rank_, step, i));
    const std::int64_t count = std::min(kPieceElements, row_.size() - begin);
    const tensor::Tensor piece = slice(buffer, 0, count);
    if (keeps_own())
      own_[static_cast<std::size_t>(turn_of(step))].memory.read_host(begin, piece);
    else
      row_.read(copies_, begin, piece);
    const std::uint64_t sum = sum_of(piece);
    std::memcpy(slice(buffer, count, kSumElements).data, &sum, sizeof sum);
    channel_.send(key(rank_, step, i), buffer);
  }
}

void NeighbourCopies::skip(const stages::Stage& stage, std::int64_t step) {
  use(stage);
  if (keeps_own()) keep_own(step);
  sent_ = step;
}

/// Copies the row, the rank's state of `step`, to the memory of this turn.
void NeighbourCopies::keep_own(std::int64_t step) {
  for (HeldCopy& copy : own_) {
    if (copy.own) continue;
    copy.own = std::make_shared<const tensor::Buffer>(
        tensor::allocate_host(static_cast<std::size_t>(row_.size()) * sizeof(float)));
    copy.memory.add(copy.own->view(tensor::DType::f32, {row_.size()}));
  }
  HeldCopy& copy = own_[static_cast<std::size_t>(turn_of(step))];
  copy.step = -1;
  row_.read(copies_, 0, copy.memory.tensors().front());
  copy.rank = rank_;
  copy.step = step;
}

void NeighbourCopies::receive(std::int64_t step) {
  HeldCopy& copy = free_copy();
  copy.rank = before_;
  if (size_before_ > 0) copy.owner = channel_.keep(key(before_, step, 0));
  for (std::int64_t i = 0; i < num_pieces(size_before_); ++i) {
    const tensor::Tensor buffer = channel_.receive(key(before_, step, i));
    const std::int64_t count = std::min(kPieceElements, size_before_ - i * kPieceElements);
    const tensor::Tensor piece = slice(buffer, 0, count);
    std::uint64_t sum = 0;
    std::memcpy(&sum, slice(buffer, count, kSumElements).data, sizeof sum);
    if (sum != sum_of(piece))
      throw Error(ErrorKind::unavailable, "the state of step " + std::to_string(step) +
                                              " arrived damaged from rank " +
                                              std::to_string(before_));
    copy.memory.add(piece);
  }
  copy.step = step;
}

bool NeighbourCopies::is_here(std::int64_t step) const {
  if (!must_receive(step)) return true;
  for (std::int64_t i = num_pieces(size_before_); i > 0; --i)  // the last one comes last
    if (!channel_.ready({.message = key(before_, step, i - 1), .buffer = {}})) return false;
  return true;
}

void NeighbourCopies::drop_before(std::int64_t step) {
  for (HeldCopy& copy : received_) {
    if (copy.step < 0 || copy.step >= step) continue;
    if (copy.adopted && size_before_ > 0) channel_.free_kept(key(before_, copy.step, 0));
    for (std::int64_t i = 0; i < num_pieces(size_before_) && !copy.adopted; ++i)
      channel_.release(key(before_, copy.step, i));
    copy = {};
  }
}

std::vector<transport::KeptSlots> NeighbourCopies::kept(const std::vector<HeldCopy>& held,
                                                        std::int64_t step, bool is_copied) const {
  std::vector<transport::KeptSlots> kept;
  for (const HeldCopy& copy : held) {
    const bool fits = copy.rank == before_ && copy.memory.size() == size_before_ && copy.owner;
    // If the neighbour sends its state of `step` as the configuration begins, that needs slots at
    // once.
    const bool stays = copy.step == step ? is_copied : turn_of(copy.step) != turn_of(step);
    if (fits && stays)
      kept.push_back({.chunk = chunk_of_copy(before_, turn_of(copy.step)),
                      .direction = transport::Direction::state,
                      .memory = copy.owner});
  }
  return kept;
}

void NeighbourCopies::free_kept() {
  for (const std::int64_t step : {std::int64_t{0}, spec_.recovery.copy_interval})  // a turn each
    if (size_before_ > 0 && !is_adopted(turn_of(step))) channel_.free_kept(key(before_, step, 0));
}

bool NeighbourCopies::is_adopted(int turn) const {
  return std::ranges::any_of(
      received_, [&](const HeldCopy& copy) { return copy.adopted && turn_of(copy.step) == turn; });
}

void NeighbourCopies::adopt(const HeldCopy& copy) {
  TROUPE_ASSERT(copy.rank == before_ && copy.memory.size() == size_before_);
  HeldCopy& taken = free_copy();
  taken = copy;
  taken.adopted = true;
}

NeighbourCopies::HeldCopy& NeighbourCopies::free_copy() {
  HeldCopy& copy = received_[received_[0].step < 0 ? 0 : 1];
  TROUPE_ASSERT(copy.step < 0);
  return copy;
}

bool NeighbourCopies::has_received(std::int64_t step) const {
  return received_[0].step == step || received_[1].step == step;
}

std::int64_t NeighbourCopies::own_bytes() const {
  std::int64_t bytes = 0;
  for (const HeldCopy& copy : own_)
    if (copy.own) bytes += static_cast<std::int64_t>(copy.own->bytes());
  return bytes;
}

std::vector<NeighbourCopies::HeldCopy> NeighbourCopies::take_out() const {
  std::vector<HeldCopy> held;
  for (const auto* copies : {&received_, &own_})
    for (const HeldCopy& copy : *copies)
      if (copy.step >= 0) held.push_back(copy);
  return held;
}

}  // namespace troupe::actors
