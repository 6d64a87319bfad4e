#include "tests/emulated_grid/grid.h"

#include <fmt/core.h>

#include <cstring>
#include <numeric>
#include <utility>

#include "tensor/values/random.h"
#include "tests/emulated_grid/block.h"
#include "tests/emulated_grid/emulated_grid.h"

namespace troupe::emulated_grid {
namespace {

constexpr unsigned kMostBlocks = 65535;  // along y and z, on every GPU

void check(const LaunchSize& size, std::size_t shared_limit) {
  const auto& [blocks, threads, shared_bytes, bound] = size;
  const std::size_t count = std::size_t{threads.x} * threads.y * threads.z;
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.x > 0x7fffffff ||
      blocks.y > kMostBlocks || blocks.z > kMostBlocks || count == 0 || count > kMostThreads ||
      threads.z > 64 || shared_bytes > shared_limit) {
    throw Fault(fmt::format(
        "the device takes no launch of {} x {} x {} blocks of {} x {} x {} threads "
        "with {} bytes of shared memory; it has {} for a block",
        blocks.x, blocks.y, blocks.z, threads.x, threads.y, threads.z, shared_bytes, shared_limit));
  }
  if (count > bound) {
    throw Fault(fmt::format(
        "a launch with blocks of {} threads of a kernel that is compiled for {}", count, bound));
  }
}

}  // namespace

bool Place::operator==(const Place& other) const {
  return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
}

std::string to_string(const Place& place) {
  const char* slash = std::strrchr(place.file, '/');
  return fmt::format("{}:{}", slash ? slash + 1 : place.file, place.line);
}

unsigned thread_bound(const void* kernel) {
#if defined(__x86_64__)
  constexpr unsigned char kNop = 0x90, kBranchTarget[] = {0xf3, 0x0f, 0x1e, 0xfa};
  const auto* code = static_cast<const unsigned char*>(kernel);
  if (std::memcmp(code, kBranchTarget, sizeof kBranchTarget) == 0) code += sizeof kBranchTarget;
  unsigned warps = 0;
  while (warps < kMostThreads / kWarp && code[warps] == kNop) ++warps;
  return warps == 0 ? kMostThreads : warps * kWarp;
#else  // not read on other machines
  static_cast<void>(kernel);
  return kMostThreads;
#endif
}

void Grid::run(const LaunchSize& size, const std::function<void()>& kernel) {
  check(size, shared_limit_);
  ++launches_;
  gridDim = size.blocks;
  blockDim = size.threads;
  const dim3& blocks = size.blocks;
  std::vector<std::size_t> order(std::size_t{blocks.x} * blocks.y * blocks.z);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i, i - 1)]);
  Block block(*this, size, kernel);
  for (const std::size_t i : order) {
    const std::size_t row = i / blocks.x;
    block.run(dim3(static_cast<unsigned>(i % blocks.x), static_cast<unsigned>(row % blocks.y),
                   static_cast<unsigned>(row / blocks.y)));
  }
}

std::size_t Grid::draw(std::size_t n, std::size_t first) {
  if (!shuffled_) return first;
  state_ += 0x9e3779b97f4a7c15;
  return tensor::mix64(state_) % n;
}

std::span<const std::unique_ptr<Fiber>> Grid::fibers(std::size_t count) {
  // A fiber may keep addresses of its thread's variables.
  if (std::exchange(thread_, std::this_thread::get_id()) != std::this_thread::get_id())
    fibers_.clear();
  while (fibers_.size() < count) fibers_.push_back(std::make_unique<Fiber>());
  return {fibers_.data(), count};
}

}  // namespace troupe::emulated_grid
