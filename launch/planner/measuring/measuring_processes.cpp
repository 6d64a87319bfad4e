#include "launch/planner/measuring/measuring_processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// Writes a message: the text's length, then its bytes. False if nobody reads it any more.
bool write_text(int socket, const std::string& text) {
  const std::uint64_t size = text.size();
  const auto whole = std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
  for (std::size_t at = 0; at < whole.size();) {
    const ssize_t sent = ::send(socket, whole.data() + at, whole.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

bool read_bytes(int socket, char* data, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::recv(socket, data + at, size - at, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += static_cast<std::size_t>(got);
  }
  return true;
}

/// A message; none if the other end has closed.
std::optional<std::string> read_text(int socket) {
  std::uint64_t size = 0;
  if (!read_bytes(socket, reinterpret_cast<char*>(&size), sizeof size)) return std::nullopt;
  std::string text(size, '\0');
  if (!read_bytes(socket, text.data(), size)) return std::nullopt;
  return text;
}

/// The bytes as a list of numbers, because UCX's addresses are bytes that no JSON text can hold.
json to_numbers(const std::string& bytes) {
  return std::vector<unsigned char>(bytes.begin(), bytes.end());
}
std::string to_bytes(const json& numbers) {
  const auto bytes = numbers.get<std::vector<unsigned char>>();
  return {bytes.begin(), bytes.end()};
}

/// What a process says: its answer, or why there is none.
void say(int socket, const json& answer) {
  write_text(socket, json{{"answer", answer}}.dump());
}

void serve(int rank, int socket, const MeasuringProcesses::MakeAnswer& make_answer) {
  const auto node = transport::UcxNode::create({.environment = transport::prepare_ucx()});
  say(socket, to_numbers(node->address()));
  const auto read = read_text(socket);
  if (!read) return;  // who asks has ended
  const json addresses = json::parse(*read);
  for (int peer = 0; peer < static_cast<int>(addresses.size()); ++peer)
    if (peer != rank) node->connect(peer, 1, to_bytes(addresses[static_cast<std::size_t>(peer)]));
  const auto answer = make_answer(rank, *node);
  while (const auto order = read_text(socket)) say(socket, answer(json::parse(*order)));
}

[[noreturn]] void live(int rank, int socket, const MeasuringProcesses::MakeAnswer& make_answer) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    serve(rank, socket, make_answer);
  } catch (const std::exception& error) {
    write_text(socket, json{{"failed", error.what()}}.dump());
  }
  ::_exit(1);
}

}  // namespace

MeasuringProcesses::MeasuringProcesses(int ranks, const MakeAnswer& make_answer) {
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw Error(ErrorKind::unavailable,
                  fmt::format("no socket for a process that measures: {}", ::strerror(errno)));
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      for (const int other : children_.sockets) ::close(other);
      live(rank, ends[1], make_answer);
    }
    const int error = errno;
    ::close(ends[1]);
    children_.sockets.push_back(ends[0]);
    children_.pids.push_back(pid);
    if (pid < 0)
      throw Error(ErrorKind::unavailable,
                  fmt::format("a process that measures cannot be started: {}", ::strerror(error)));
  }
  const json addresses = next_of_all();
  for (const int socket : children_.sockets) write_text(socket, addresses.dump());
}

MeasuringProcesses::Children::~Children() {
  for (const int pid : pids)
    if (pid > 0) ::kill(pid, SIGKILL);
  for (const int pid : pids)
    if (pid > 0) ::waitpid(pid, nullptr, 0);
  for (const int socket : sockets) ::close(socket);
}

std::vector<json> MeasuringProcesses::ask(const json& order) {
  // One that takes no order has said why, or has ended: next_of() tells.
  for (const int socket : children_.sockets) write_text(socket, order.dump());
  return next_of_all();
}

std::vector<json> MeasuringProcesses::next_of_all() {
  std::vector<json> answers(children_.sockets.size());
  std::vector<pollfd> waiting;
  for (const int socket : children_.sockets)
    waiting.push_back({.fd = socket, .events = POLLIN, .revents = 0});
  // Others may wait for one that has failed, so that answers are taken as they come.
  for (std::size_t left = waiting.size(); left > 0;) {
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    for (std::size_t rank = 0; rank < waiting.size(); ++rank) {
      if (waiting[rank].fd < 0 || waiting[rank].revents == 0) continue;
      answers[rank] = next_of(rank);
      waiting[rank].fd = -1;
      --left;
    }
  }
  return answers;
}

json MeasuringProcesses::next_of(std::size_t rank) {
  const auto read = read_text(children_.sockets[rank]);
  const json said = read ? json::parse(*read) : json{{"failed", end_of(rank)}};
  if (said.contains("answer")) return said["answer"];
  throw Error(ErrorKind::unavailable,
              fmt::format("rank {} of {} that measure has failed: {}", rank,
                          children_.sockets.size(), said.at("failed").get<std::string>()));
}

std::string MeasuringProcesses::end_of(std::size_t rank) {
  int status = 0;
  ::waitpid(std::exchange(children_.pids[rank], -1), &status, 0);
  if (WIFSIGNALED(status))
    return fmt::format("signal {} ({}) has ended its process", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("its process has ended with code {}", WEXITSTATUS(status));
}

}  // namespace troupe::launch
