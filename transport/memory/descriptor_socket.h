#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <optional>
#include <string>

#include "transport/memory/file_descriptor.h"

// Sockets without a file, through which processes of one user hand each other descriptors. They end
// with the process; processes of other networks, as some containers make them, do not find them.

namespace troupe::transport {

/// The address of such a socket, whose name in the system begins with a zero byte.
class SocketAddress {
 public:
  explicit SocketAddress(const std::string& text);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name_); }
  socklen_t length() const { return length_; }

 private:
  sockaddr_un name_{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t length_;
};

/// None if the system gives no socket.
FileDescriptor make_descriptor_socket();
/// Lets calls of this socket wait for seconds at most.
void be_patient(const FileDescriptor& socket);
/// Whether the other end is a process of this user.
bool is_of_this_user(const FileDescriptor& connection);
/// A connection, on which calls wait for seconds at most, to a process of this user that listens
/// there; none if there is none.
FileDescriptor connect_to(const SocketAddress& address);
void send_descriptor(const FileDescriptor& connection, int descriptor);
/// None if nobody sends one within seconds.
std::optional<FileDescriptor> receive_descriptor(const FileDescriptor& connection);

}  // namespace troupe::transport
