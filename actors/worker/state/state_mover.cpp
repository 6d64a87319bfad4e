#include "actors/worker/state/state_mover.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "actors/worker/state/neighbour_copies.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// The number of pieces that may be under way to a receiver.
constexpr int kSlots = 4;

/// The name of an edge for both its ends: neither has another edge in this direction with the same
/// sum.
int chunk_of_edge(int from, int to) {
  return from + to;
}

}  // namespace

TensorRow StateMover::row_of(const Units& units, const StateMove& move, int into) const {
  const auto found = units.find(move.unit);
  if (found == units.end())
    throw Error(ErrorKind::internal,
                "unit " + std::to_string(move.unit) + " of the state is to move, and is not here");
  return moved_row(found->second, [&](const stages::ParameterInfo& info) {
    return moved_region(info, model_, from_, move.part, to_, into);
  });
}

/// What a move carries lies in the order of the parts that it goes into, at both its ends.
TensorRow StateMover::row_from(const Memory& memory, const StateMove& move) const {
  const auto& parts = move.copy_of < 0 ? memory.own : memory.copies.at(move.copy_of);
  const Units& units = parts.at(move.part);
  TensorRow row;
  for (const int into : to_.kept_by(move.to)) row.add(row_of(units, move, into));
  return row;
}

TensorRow StateMover::row_into(const Memory& memory, const StateMove& move) const {
  TensorRow row;
  for (const int into : to_.kept_by(move.to)) row.add(row_of(memory.into.at(into), move, into));
  return row;
}

std::vector<transport::Edge> StateMover::edges() const {
  std::vector<transport::Edge> edges;
  std::set<std::pair<int, int>> seen;
  for (const StateMove& move : plan_.moves) {
    if (move.from == move.to || (move.from != member_ && move.to != member_)) continue;
    if (!seen.insert({move.from, move.to}).second) continue;
    edges.push_back({.from = move.from,
                     .to = move.to,
                     .chunk = chunk_of_edge(move.from, move.to),
                     .direction = transport::Direction::state,
                     .dtype = tensor::DType::f32,
                     .shape = {kPieceElements},
                     .slots = kSlots});
  }
  return edges;
}

std::vector<int> StateMover::peers() const {
  std::set<int> peers;
  for (const transport::Edge& edge : edges())
    peers.insert(edge.from == member_ ? edge.to : edge.from);
  return {peers.begin(), peers.end()};
}

transport::MessageKey StateMover::next_key(int from, int to) {
  return {.step = static_cast<std::uint64_t>(plan_.step),
          .microbatch = pieces_[{from, to}]++,
          .chunk = chunk_of_edge(from, to),
          .direction = transport::Direction::state};
}

/// Sends the row, which lies in host memory if it is held, or in the device's.
void StateMover::give(const TensorRow& from, bool is_held, int to, transport::Channel& channel) {
  for (std::int64_t begin = 0; begin < from.size(); begin += kPieceElements) {
    const auto key = next_key(member_, to);
    const tensor::Tensor buffer = channel.acquire(key);
    const auto piece = slice(buffer, 0, std::min(kPieceElements, from.size() - begin));
    is_held ? from.read_host(begin, piece) : from.read(copies_, begin, piece);
    channel.send(key, buffer);
  }
}

void StateMover::take(const TensorRow& into, int from, transport::Channel& channel) {
  for (std::int64_t begin = 0; begin < into.size(); begin += kPieceElements) {
    const auto key = next_key(from, member_);
    const tensor::Tensor buffer = channel.receive(key);
    into.write(copies_, begin, slice(buffer, 0, std::min(kPieceElements, into.size() - begin)));
    channel.release(key);
  }
}

void StateMover::copy(const TensorRow& from, bool is_held, const TensorRow& into) {
  TROUPE_ASSERT(from.size() == into.size());
  std::int64_t begin = 0;
  for (const tensor::Tensor& x : is_held ? from.tensors() : into.tensors()) {
    is_held ? into.write(copies_, begin, x) : from.copy(*stream_, begin, x);
    begin += x.num_elements();
  }
}

void StateMover::perform(const Memory& memory, transport::Channel& channel) {
  bool gives = false;
  for (const StateMove& move : plan_.moves) {
    const bool mine = move.from == member_, to_me = move.to == member_;
    if (!mine && !to_me) continue;
    if (!mine) {
      take(row_into(memory, move), move.from, channel);
      continue;
    }
    const TensorRow from = row_from(memory, move);
    const bool is_held = move.copy_of >= 0 || memory.own_on_host;
    if (!to_me) {
      give(from, is_held, move.to, channel);
      gives = true;
    } else if (!memory.in_place || is_held) {
      copy(from, is_held, row_into(memory, move));
    }
  }
  stream_->synchronize();
  copies_.synchronize();
  if (gives) channel.flush();
}

}  // namespace troupe::actors
