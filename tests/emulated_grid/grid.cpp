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

// What compute capability 9.0 takes.
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kMostShared = 227 * 1024;  // static and dynamic
constexpr unsigned kMostBlocks = 65535;          // along y and z

void check(const LaunchSize& size) {
  const auto& [blocks, threads, shared_bytes] = size;
  const std::size_t count = std::size_t{threads.x} * threads.y * threads.z;
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.x > 0x7fffffff ||
      blocks.y > kMostBlocks || blocks.z > kMostBlocks || count == 0 || count > kMostThreads ||
      threads.z > 64 ||
      (shared_bytes > 0 && shared_bytes + tensor::cuda::kMostStaticBesideDynamic > kMostShared)) {
    throw Fault(
        fmt::format("no device takes a launch of {} x {} x {} blocks of {} x {} x {} threads "
                    "with {} bytes of shared memory",
                    blocks.x, blocks.y, blocks.z, threads.x, threads.y, threads.z, shared_bytes));
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

void Grid::run(const LaunchSize& size, const std::function<void()>& kernel) {
  check(size);
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
  while (fibers_.size() < count) fibers_.push_back(std::make_unique<Fiber>());
  return {fibers_.data(), count};
}

}  // namespace troupe::emulated_grid
