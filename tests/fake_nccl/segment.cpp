#include "tests/fake_nccl/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

namespace troupe::fake_nccl {
namespace {

Segment* map(int descriptor) {
  void* const memory =
      mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Segment*>(memory);
}

Id content_of(const ncclUniqueId& id) {
  Id content{};
  std::memcpy(&content, &id, sizeof content);
  return content;
}

}  // namespace

std::size_t Ring::write(const std::byte* from, std::size_t count) {
  const std::uint64_t begin = written.load(std::memory_order_relaxed);
  const std::size_t room = kBytes - (begin - taken.load(std::memory_order_acquire));
  count = std::min(count, room);
  const std::size_t at = begin % kBytes, first = std::min(count, kBytes - at);
  std::memcpy(bytes.data() + at, from, first);
  std::memcpy(bytes.data(), from + first, count - first);
  written.store(begin + count, std::memory_order_release);
  return count;
}

std::size_t Ring::read(std::byte* to, std::size_t count) {
  const std::uint64_t begin = taken.load(std::memory_order_relaxed);
  count = std::min<std::size_t>(count, written.load(std::memory_order_acquire) - begin);
  const std::size_t at = begin % kBytes, first = std::min(count, kBytes - at);
  std::memcpy(to, bytes.data() + at, first);
  std::memcpy(to + first, bytes.data(), count - first);
  taken.store(begin + count, std::memory_order_release);
  return count;
}

Segment* make_segment(ncclUniqueId& id) {
  const int descriptor = memfd_create("fake_nccl", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, sizeof(Segment)) != 0) return nullptr;
  Segment* const segment = map(descriptor);
  if (!segment) return nullptr;
  std::random_device random;
  segment->id = std::uint64_t{random()} << 32 | random();
  const Id content{.id = segment->id, .process = getpid(), .descriptor = descriptor};
  std::memcpy(&id, &content, sizeof content);
  return segment;
}

Segment* open_segment(const ncclUniqueId& id) {
  const Id content = content_of(id);
  const std::string path =
      "/proc/" + std::to_string(content.process) + "/fd/" + std::to_string(content.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  Segment* segment = map(descriptor);
  close(descriptor);
  if (segment && segment->id != content.id) {
    munmap(segment, sizeof(Segment));
    segment = nullptr;
  }
  return segment;
}

void close_segment(Segment* segment, const ncclUniqueId& id) {
  munmap(segment, sizeof(Segment));
  const Id content = content_of(id);
  if (content.process == getpid()) close(content.descriptor);
}

}  // namespace troupe::fake_nccl
