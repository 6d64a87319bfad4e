#include "launch/host/child_process.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace troupe::launch {
namespace {

/// This process's environment with these variables.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const auto same_name = [&](const std::string& own) {
      return text.starts_with(own.substr(0, own.find('=') + 1));
    };
    if (std::ranges::none_of(more, same_name)) all.push_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

int start_child(pid_t& child, std::vector<std::string> words, const ChildFiles& files,
                const std::vector<std::string>& variables) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, files.input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, files.output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, files.errors, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::vector<std::string> environment = environment_with(variables);
  const int error = posix_spawnp(&child, words.front().c_str(), &actions, &attributes,
                                 pointers_to(words).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

std::string ending_of(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was ended by SIG{}", sigabbrev_np(WTERMSIG(status)));
}

}  // namespace troupe::launch
