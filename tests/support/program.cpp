#include "tests/support/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "tests/support/temp_dir.h"

namespace troupe::test {

Program::Program(const std::vector<std::string>& words, Input input) {
  std::string err_name = (std::filesystem::temp_directory_path() / "troupe-err-XXXXXX").string();
  err_fd_ = mkostemp(err_name.data(), O_CLOEXEC);
  unlink(err_name.c_str());  // a test that is killed leaves no file
  std::array<int, 2> out{}, in{-1, -1};
  // A socket, because writing to a pipe that nobody reads would end the test.
  if (err_fd_ < 0 || pipe2(out.data(), O_CLOEXEC) < 0 ||
      (input == Input::written &&
       socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) < 0))
    throw std::runtime_error("cannot start a program");
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    if (input == Input::written) dup2(in[1], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err_fd_, STDERR_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(out[1]);
  if (input == Input::written) close(in[1]);
  in_fd_ = in[0];
  out_fd_ = out[0];
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  end_input();
  close(out_fd_);
  close(err_fd_);
}

std::string Program::read_line() {
  std::size_t end = 0;
  while ((end = buffered_.find('\n')) == std::string::npos) {
    std::array<char, 4096> chunk{};
    const ssize_t n = read(out_fd_, chunk.data(), chunk.size());
    if (n <= 0) {
      out_ += buffered_;
      return std::exchange(buffered_, {});
    }
    buffered_.append(chunk.data(), static_cast<std::size_t>(n));
  }
  const std::string line = buffered_.substr(0, end + 1);
  buffered_.erase(0, end + 1);
  out_ += line;
  return line;
}

bool Program::read_until(const std::string& text) {
  for (std::string line; !(line = read_line()).empty();)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

void Program::write(const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(in_fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0) throw std::runtime_error("a program does not read any more");
    sent += static_cast<std::size_t>(n);
  }
}

void Program::end_input() {
  if (in_fd_ >= 0) close(std::exchange(in_fd_, -1));
}

void Program::signal(int number) {
  kill(pid(), number);
}

Finished Program::finish() {
  while (!read_line().empty()) {
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = out_,
          .err = content_of("/proc/self/fd/" + std::to_string(err_fd_))};
}

}  // namespace troupe::test
