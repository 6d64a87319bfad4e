#include "transport/memory/slot_memory.h"

#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "tensor/device/host_memory.h"

namespace troupe::transport {
namespace {

/// Where the slots begin in a segment; the nonce lies at its start.
constexpr std::size_t kSlotsOffset = kCacheLine;

/// Whole pages that hold so many bytes.
std::size_t in_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

/// A System V segment of so many bytes in this process's address space.
class Attachment {
 public:
  Attachment(int id, std::size_t bytes) : base_(::shmat(id, nullptr, 0)), bytes_(bytes) {}
  /// On Linux a segment whose pages are all unmapped is detached. ThreadSanitizer knows munmap but
  /// not shmdt, and would take a later segment at this address for the same memory.
  ~Attachment() {
    if (is_valid()) ::munmap(base_, in_pages(bytes_));
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  bool is_valid() const { return base_ != reinterpret_cast<void*>(-1); }
  std::byte* slots() const { return static_cast<std::byte*>(base_) + kSlotsOffset; }
  std::uint64_t nonce() const {
    std::uint64_t nonce = 0;
    std::memcpy(&nonce, base_, sizeof nonce);
    return nonce;
  }
  bool make_present(std::size_t bytes) const {
    return tensor::make_present(base_, kSlotsOffset + bytes);
  }
  void set_nonce(std::uint64_t nonce) { std::memcpy(base_, &nonce, sizeof nonce); }

 private:
  void* base_;
  std::size_t bytes_;
};

class PrivateSlots : public SlotMemory {
 public:
  explicit PrivateSlots(std::size_t bytes) : memory_(tensor::allocate_host(bytes)) {}
  std::byte* data() const override { return static_cast<std::byte*>(memory_.data()); }
  std::size_t bytes() const override { return memory_.bytes(); }
  SegmentName name() const override { return {}; }
  bool reclaim() override { return true; }

 private:
  tensor::Buffer memory_;
};

class SharedSlots : public SlotMemory {
 public:
  SharedSlots(int id, std::size_t bytes) : attachment_(id, kSlotsOffset + bytes), bytes_(bytes) {
    // Marked for removal at once: the segment lives on while a process is attached to it, and Linux
    // lets any process attach that knows the id.
    ::shmctl(id, IPC_RMID, nullptr);
    if (!attachment_.is_valid()) return;
    name_.id = id;
    set_nonce();
    // Brings in all pages now, which the system clears, so that no write meets a page fault.
    if (!attachment_.make_present(bytes)) std::memset(attachment_.slots(), 0, bytes);
  }
  std::byte* data() const override { return attachment_.slots(); }
  std::size_t bytes() const override { return bytes_; }
  SegmentName name() const override { return name_; }
  bool reclaim() override {
    // The nonce changes before the count is read: a process that attached earlier is counted, and
    // one that attaches later finds another nonce.
    set_nonce();
    shmid_ds status{};
    return ::shmctl(static_cast<int>(name_.id), IPC_STAT, &status) == 0 && status.shm_nattch == 1;
  }

 private:
  void set_nonce() {
    std::random_device random;
    name_.nonce = (std::uint64_t{random()} << 32) | random();
    attachment_.set_nonce(name_.nonce);
  }

  Attachment attachment_;
  std::size_t bytes_;
  SegmentName name_;
};

class AttachedSlots : public MappedSlots {
 public:
  AttachedSlots(int id, std::size_t segment_bytes) : attachment_(id, segment_bytes) {}
  /// Brings in all pages, so that no write meets a page fault.
  void make_present(std::size_t bytes) const { attachment_.make_present(bytes); }
  std::byte* data() const override { return attachment_.slots(); }
  bool has_nonce(std::uint64_t nonce) const {
    return attachment_.is_valid() && attachment_.nonce() == nonce;
  }

 private:
  Attachment attachment_;
};

}  // namespace

std::unique_ptr<SlotMemory> make_private_slots(std::size_t bytes) {
  return std::make_unique<PrivateSlots>(bytes);
}

std::unique_ptr<SlotMemory> make_shared_slots(std::size_t bytes) {
  const int id = ::shmget(IPC_PRIVATE, kSlotsOffset + bytes, IPC_CREAT | 0600);
  if (id < 0) return make_private_slots(bytes);
  auto slots = std::make_unique<SharedSlots>(id, bytes);
  if (slots->name().id == SegmentName::kNone) return make_private_slots(bytes);
  return slots;
}

std::unique_ptr<MappedSlots> map_slots(const SegmentName& name, std::size_t bytes) {
  if (name.id < 0 || name.id > std::numeric_limits<int>::max()) return nullptr;
  const int id = static_cast<int>(name.id);
  shmid_ds status{};
  if (::shmctl(id, IPC_STAT, &status) != 0 || status.shm_segsz < kSlotsOffset + bytes)
    return nullptr;
  auto slots = std::make_unique<AttachedSlots>(id, status.shm_segsz);
  if (!slots->has_nonce(name.nonce)) return nullptr;
  slots->make_present(bytes);
  return slots;
}

std::byte* MappedSegments::find(const SegmentName& name, std::size_t bytes) {
  if (name.id == SegmentName::kNone) return nullptr;
  auto found = std::ranges::find_if(mappings_, [&](const Mapping& mapping) {
    return mapping.name == name && mapping.bytes == bytes;
  });
  if (found == mappings_.end()) {
    mappings_.push_back({name, bytes, map_slots(name, bytes)});
    found = mappings_.end() - 1;
  }
  return found->slots ? found->slots->data() : nullptr;
}

}  // namespace troupe::transport
