#pragma once

#include <sys/types.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/troupe_program.h"

namespace troupe::test {

/// The processes that a process has started and that have not ended.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::istringstream list(of_process(parent, "task/" + std::to_string(parent) + "/children"));
  std::vector<pid_t> children;
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

}  // namespace troupe::test
