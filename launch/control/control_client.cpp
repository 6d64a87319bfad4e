#include "launch/control/control_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void unreachable(const ControlAddress& address, const std::string& why) {
  throw Error(ErrorKind::unavailable,
              fmt::format("the launcher (pid {}, {}:{}) does not answer: {}", address.pid,
                          address.host, address.port, why));
}

int connect_to(const ControlAddress& address) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(address.port));
  if (inet_pton(AF_INET, address.host.c_str(), &where.sin_addr) != 1)
    unreachable(address, "no such address");
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0)
    return fd;
  const int code = errno;
  if (fd >= 0) close(fd);
  unreachable(address, std::strerror(code));
}

}  // namespace

std::optional<ControlAddress> read_control(const std::filesystem::path& run) {
  const auto json = read_json(run / kControlFile);
  if (!json) return std::nullopt;
  const auto address = read_fields<ControlAddress>(*json);
  const bool whole =
      !address.host.empty() && !address.token.empty() && address.port != 0 && address.pid != 0;
  return whole ? std::optional(address) : std::nullopt;
}

ControlClient::ControlClient(const ControlAddress& address, const std::string& request,
                             const nlohmann::json& fields)
    : address_(address), fd_(connect_to(address)) {
  nlohmann::json frame = fields;
  frame["token"] = address.token;
  frame["request"] = request;
  if (send(frame)) return;
  const int code = errno;
  close(fd_);
  unreachable(address_, std::strerror(code));
}

ControlClient::~ControlClient() {
  close(fd_);
}

bool ControlClient::send(const nlohmann::json& json) {
  const std::string frame = to_frame(json);
  // Frames of this size fit the socket's buffer in one call.
  return ::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL) == std::ssize(frame);
}

std::optional<nlohmann::json> ControlClient::receive(milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (auto frame = next_frame()) return frame;
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    const int count = timeout.count() == 0 ? poll(&ready, 1, -1)
                      : left.count() < 0   ? 0
                                           : poll(&ready, 1, static_cast<int>(left.count()));
    if (count == 0) unreachable(address_, fmt::format("no reply in {} ms", timeout.count()));
    if (count > 0 && !read_some(0)) return std::nullopt;
  }
}

std::optional<nlohmann::json> ControlClient::try_receive(bool& closed) {
  if (auto frame = next_frame()) return frame;
  closed = !read_some(MSG_DONTWAIT);
  return next_frame();
}

std::optional<nlohmann::json> ControlClient::next_frame() {
  const auto frame = in_.next();
  if (in_.broken()) unreachable(address_, "it sent something else than a reply");
  if (!frame) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(*frame, nullptr, false);
  if (!json.is_object()) unreachable(address_, "it sent something else than a reply");
  return json;
}

/// Receives some bytes into the frame reader. Returns false if the other side has closed the
/// connection.
bool ControlClient::read_some(int flags) {
  std::array<char, 65536> bytes;
  const ssize_t got = recv(fd_, bytes.data(), bytes.size(), flags);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  in_.add({bytes.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

std::variant<std::unique_ptr<ControlClient>, Ending> ask_run(const std::filesystem::path& run,
                                                             const std::string& request,
                                                             const nlohmann::json& fields) {
  require_run(run);
  if (const auto ending = ending_unless_live(run)) return *ending;
  const auto address = read_control(run);
  if (address) try {
      return std::make_unique<ControlClient>(*address, request, fields);
    } catch (const Error&) {
      // The run may have ended after its address was read and before it was asked.
      if (has_launcher(run) && !read_ending(run)) throw;
      return find_ending(run);
    }
  if (auto ending = read_ending(run)) return *ending;
  throw Error(ErrorKind::unavailable,
              fmt::format("the run in {} is just starting or ending; ask again", run.string()));
}

Ending ended_unanswered(const std::filesystem::path& run) {
  if (has_launcher(run) && !read_ending(run))
    throw Error(
        ErrorKind::unavailable,
        fmt::format("the launcher of {} closed the connection without an answer, as it does "
                    "for a wrong token; is {} its own?",
                    run.string(), (run / kControlFile).string()));
  return find_ending(run);
}

}  // namespace troupe::launch
