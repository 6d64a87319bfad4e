#include "transport/memory/shared_pages.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "transport/memory/descriptor_socket.h"

namespace troupe::transport {
namespace {

constexpr int kBacklog = 64;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

std::size_t page_size() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// A file of memory with these bytes, which nobody can change any more; none if there is no room.
FileDescriptor file_of(const void* data, std::size_t bytes) {
  FileDescriptor file(::memfd_create("shared pages", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return {};
  const auto* next = static_cast<const std::byte*>(data);
  for (std::size_t left = bytes; left > 0;) {
    constexpr std::size_t kMost = std::size_t{1} << 30;
    const ssize_t written = ::write(file.get(), next, std::min(left, kMost));
    if (written <= 0) return {};
    next += written;
    left -= static_cast<std::size_t>(written);
  }
  return ::fcntl(file.get(), F_ADD_SEALS, kSeals) == 0 ? std::move(file) : FileDescriptor();
}

bool holds(const FileDescriptor& file, std::size_t bytes) {
  struct stat status {};
  return ::fcntl(file.get(), F_GET_SEALS) == kSeals && ::fstat(file.get(), &status) == 0 &&
         std::cmp_equal(status.st_size, bytes);
}

bool map_over(void* data, std::size_t bytes, const FileDescriptor& file) {
  return ::mmap(data, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0) != MAP_FAILED;
}

}  // namespace

bool SharedPages::can_share(const void* data, std::size_t bytes) {
  // Smaller allocations may share a page with others.
  constexpr std::size_t kFewest = std::size_t{2} << 20;
  return bytes >= kFewest && reinterpret_cast<std::uintptr_t>(data) % page_size() == 0;
}

bool SharedPages::take() {
  const FileDescriptor connection = connect_to(SocketAddress(name_));
  if (!connection) return false;
  auto file = receive_descriptor(connection);
  if (!file || !holds(*file, bytes_) || !map_over(data_, bytes_, *file)) return false;
  memory_ = std::move(*file);
  return true;
}

void SharedPages::give() {
  if (memory_ || take()) return;
  memory_ = file_of(data_, bytes_);
  if (!memory_) return;
  offer();
  if (thread_.joinable())
    map_over(data_, bytes_, memory_);
  else if (!take())
    memory_ = {};
}

void SharedPages::offer() {
  if (!memory_ || thread_.joinable()) return;
  socket_ = make_descriptor_socket();
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const SocketAddress address(name_);
  if (!socket_ || !wake_ || ::bind(socket_.get(), address.get(), address.length()) != 0 ||
      ::listen(socket_.get(), kBacklog) != 0)
    return;
  thread_ = std::thread([this] { answer_all(); });
}

SharedPages::~SharedPages() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void SharedPages::answer_all() {
  for (;;) {
    pollfd waits[2] = {{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                       {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) return;
    const FileDescriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection || !is_of_this_user(connection)) continue;
    be_patient(connection);
    send_descriptor(connection, memory_.get());
  }
}

}  // namespace troupe::transport
