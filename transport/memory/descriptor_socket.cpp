#include "transport/memory/descriptor_socket.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace troupe::transport {
namespace {

/// How long either side of a connection waits for the other. A stopped process must not hold up
/// others for longer.
constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};

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

}  // namespace

SocketAddress::SocketAddress(const std::string& text) : length_(0) {
  const std::size_t size = std::min(text.size(), sizeof name_.sun_path - 1);
  std::memcpy(name_.sun_path + 1, text.data(), size);
  length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

FileDescriptor make_descriptor_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

void be_patient(const FileDescriptor& socket) {
  for (const int way : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(socket.get(), SOL_SOCKET, way, &kPatience, sizeof kPatience);
}

bool is_of_this_user(const FileDescriptor& connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

FileDescriptor connect_to(const SocketAddress& address) {
  FileDescriptor connection = make_descriptor_socket();
  if (!connection) return {};
  be_patient(connection);
  if (::connect(connection.get(), address.get(), address.length()) != 0 ||
      !is_of_this_user(connection))
    return {};
  return connection;
}

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

std::optional<FileDescriptor> receive_descriptor(const FileDescriptor& connection) {
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
