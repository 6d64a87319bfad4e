#include "transport/memory/descriptor_offers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>
#include <random>
#include <utility>

#include "transport/memory/descriptor_socket.h"

namespace troupe::transport {
namespace {

constexpr int kBacklog = 64;

SocketAddress address_of(std::int64_t id) {
  return SocketAddress(fmt::format("troupe-slots-{:016x}", id));
}

std::uint64_t random_number() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace

DescriptorOffers::DescriptorOffers()
    : socket_(make_descriptor_socket()), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto id = static_cast<std::int64_t>(random_number() & most);
  const SocketAddress address = address_of(id);
  if (!socket_ || !wake_ || ::bind(socket_.get(), address.get(), address.length()) != 0 ||
      ::listen(socket_.get(), kBacklog) != 0)
    return;
  id_ = id;
  thread_ = std::thread([this] { answer_all(); });
}

DescriptorOffers::~DescriptorOffers() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

SegmentName DescriptorOffers::offer(int descriptor) {
  if (id_ == SegmentName::kNone) return {};
  const std::uint64_t nonce = random_number();
  const std::lock_guard lock(mutex_);
  offered_[nonce] = descriptor;
  return {.id = id_, .nonce = nonce};
}

void DescriptorOffers::withdraw(const SegmentName& name) {
  const std::lock_guard lock(mutex_);
  offered_.erase(name.nonce);
}

void DescriptorOffers::answer_all() {
  for (;;) {
    pollfd waits[2] = {{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                       {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) return;
    const FileDescriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection && is_of_this_user(connection)) answer(connection);
  }
}

void DescriptorOffers::answer(const FileDescriptor& connection) {
  be_patient(connection);
  std::uint64_t nonce = 0;
  if (::recv(connection.get(), &nonce, sizeof nonce, 0) != sizeof nonce) return;
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(nonce);
  if (found != offered_.end()) send_descriptor(connection, found->second);
}

std::optional<FileDescriptor> fetch_descriptor(const SegmentName& name) {
  if (name.id < 0) return std::nullopt;
  const FileDescriptor connection = connect_to(address_of(name.id));
  if (!connection ||
      ::send(connection.get(), &name.nonce, sizeof name.nonce, MSG_NOSIGNAL) != sizeof name.nonce)
    return std::nullopt;
  return receive_descriptor(connection);
}

}  // namespace troupe::transport
