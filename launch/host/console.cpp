#include "launch/host/console.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tensor/errors/error.h"

namespace troupe::launch {
void print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw Error(ErrorKind::data, fmt::format("cannot write the output: {}", std::strerror(errno)));
}

void show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void print_error(const std::string& text) {
  std::fputs(("troupe: " + text + "\n").c_str(), stderr);
}

}  // namespace troupe::launch
