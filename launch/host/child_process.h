#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace troupe::launch {

/// Standard input, output and error of a child process.
struct ChildFiles {
  int input = -1;
  int output = -1;
  int errors = -1;
};

/// Starts a program, which is looked for on PATH, with these variables, each "NAME=value", in place
/// of this process's own of the same name. It has a session of its own, as the terminal's Ctrl-C is
/// for the launcher, and no signal blocked or handled. Returns 0, or an error number.
int start_child(pid_t& child, std::vector<std::string> words, const ChildFiles& files,
                const std::vector<std::string>& variables = {});

/// How a process ended, by its status of waitpid(): "ended with exit code 3", "was ended by
/// SIGKILL".
std::string ending_of(int status);

}  // namespace troupe::launch
