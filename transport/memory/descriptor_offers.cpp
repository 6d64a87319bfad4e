#include "transport/memory/descriptor_offers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

namespace troupe::transport {
namespace {

/// How long either side of a connection waits for the other. A stopped process must not hold up
/// others for longer.
constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};
constexpr int kBacklog = 64;

struct Address {
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t length = 0;

  /// Of the sockets without a file, whose names begin with a zero byte.
  explicit Address(std::int64_t id) {
    const std::string text = fmt::format("troupe-slots-{:016x}", id);
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

std::uint64_t random_number() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

FileDescriptor make_socket() {
  FileDescriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return made;
}

void be_patient(const FileDescriptor& socket) {
  for (const int way : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(socket.get(), SOL_SOCKET, way, &kPatience, sizeof kPatience);
}

/// Whether the other end is a process of this user.
bool is_of_this_user(const FileDescriptor& connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

/// A message of one byte, with room for a descriptor beside it.
struct Message {
  std::byte byte{};
  alignas(cmsghdr) std::byte room[CMSG_SPACE(sizeof(int))]{};
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr header{};

  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
};

void send_descriptor(const FileDescriptor& connection, int descriptor) {
  Message message;
  cmsghdr* const beside = CMSG_FIRSTHDR(&message.header);
  beside->cmsg_level = SOL_SOCKET;
  beside->cmsg_type = SCM_RIGHTS;
  beside->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(beside), &descriptor, sizeof descriptor);
  // Nobody may be there any more, who then needs nothing.
  [[maybe_unused]] const auto sent = ::sendmsg(connection.get(), &message.header, MSG_NOSIGNAL);
}

}  // namespace

DescriptorOffers::DescriptorOffers()
    : socket_(make_socket()), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto id = static_cast<std::int64_t>(random_number() & most);
  const Address address(id);
  if (!socket_ || !wake_ || ::bind(socket_.get(), address.get(), address.length) != 0 ||
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
  const FileDescriptor connection = make_socket();
  const Address address(name.id);
  be_patient(connection);
  if (!connection || ::connect(connection.get(), address.get(), address.length) != 0 ||
      !is_of_this_user(connection) ||
      ::send(connection.get(), &name.nonce, sizeof name.nonce, MSG_NOSIGNAL) != sizeof name.nonce)
    return std::nullopt;
  Message message;
  if (::recvmsg(connection.get(), &message.header, MSG_CMSG_CLOEXEC) != 1) return std::nullopt;
  const cmsghdr* const beside = CMSG_FIRSTHDR(&message.header);
  if (!beside || beside->cmsg_type != SCM_RIGHTS || beside->cmsg_len != CMSG_LEN(sizeof(int)))
    return std::nullopt;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(beside), sizeof descriptor);
  return FileDescriptor(descriptor);
}

}  // namespace troupe::transport
