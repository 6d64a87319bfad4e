#include "tests/bench/rank_processes.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tensor/errors/error.h"

namespace troupe::bench {
namespace {

using nlohmann::json;

/// Writes a message: the text's length, then its bytes.
void write_text(int fd, const std::string& text) {
  const std::uint64_t size = text.size();
  const auto whole = std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
  for (std::size_t done = 0; done < whole.size();) {
    const ssize_t n = ::send(fd, whole.data() + done, whole.size() - done, MSG_NOSIGNAL);
    if (n <= 0) throw Error(ErrorKind::unavailable, "the other process is gone");
    done += static_cast<std::size_t>(n);
  }
}

void read_bytes(int fd, char* data, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::recv(fd, data + done, size - done, 0);
    if (n <= 0) throw Error(ErrorKind::unavailable, "the other process is gone");
    done += static_cast<std::size_t>(n);
  }
}

std::string read_text(int fd) {
  std::uint64_t size = 0;
  read_bytes(fd, reinterpret_cast<char*>(&size), sizeof size);
  std::string text(size, '\0');
  read_bytes(fd, text.data(), size);
  return text;
}

/// The bytes as a list of numbers, because UCX's addresses are bytes that JSON text cannot hold.
json to_numbers(const std::string& bytes) {
  return std::vector<unsigned char>(bytes.begin(), bytes.end());
}
std::string to_bytes(const json& numbers) {
  const auto bytes = numbers.get<std::vector<unsigned char>>();
  return {bytes.begin(), bytes.end()};
}

void serve(int rank, int socket, const RankProcesses::MakeAnswer& make_answer) {
  const auto node = transport::UcxNode::create({.environment = transport::prepare_ucx()});
  write_text(socket, to_numbers(node->address()).dump());
  const json addresses = json::parse(read_text(socket));
  for (int peer = 0; peer < static_cast<int>(addresses.size()); ++peer)
    if (peer != rank) node->connect(peer, 1, to_bytes(addresses[static_cast<std::size_t>(peer)]));
  const auto answer = make_answer(rank, *node);
  for (;;) write_text(socket, answer(json::parse(read_text(socket))).dump());
}

[[noreturn]] void live(int rank, int socket, const RankProcesses::MakeAnswer& make_answer) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    serve(rank, socket, make_answer);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
  }
  ::_exit(1);
}

}  // namespace

RankProcesses::RankProcesses(int ranks, const MakeAnswer& make_answer) {
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw Error(ErrorKind::unavailable, "no socket for a rank");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      for (const int other : sockets_) ::close(other);
      live(rank, ends[1], make_answer);
    }
    ::close(ends[1]);
    sockets_.push_back(ends[0]);
    pids_.push_back(pid);
  }
  json addresses = json::array();
  for (const int socket : sockets_) addresses.push_back(json::parse(read_text(socket)));
  for (const int socket : sockets_) write_text(socket, addresses.dump());
}

RankProcesses::~RankProcesses() {
  for (const int pid : pids_) ::kill(pid, SIGKILL);
  for (const int pid : pids_) ::waitpid(pid, nullptr, 0);
  for (const int socket : sockets_) ::close(socket);
}

std::vector<json> RankProcesses::ask(const json& order) {
  for (const int socket : sockets_) write_text(socket, order.dump());
  std::vector<json> answers;
  for (const int socket : sockets_) answers.push_back(json::parse(read_text(socket)));
  return answers;
}

}  // namespace troupe::bench
