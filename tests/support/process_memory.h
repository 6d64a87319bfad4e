#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace troupe::test {

/// Longer runs of addresses are a sanitizer's records, nearly all of them without memory.
inline constexpr unsigned long kLargest = 1ul << 30;

/// Overwrites the bytes `from`, wherever they lie in the writable memory of a descendant of this
/// process, by as many bytes `to`. Returns how often they were there.
inline int overwrite(pid_t pid, const std::string& from, const std::string& to) {
  const std::string proc = "/proc/" + std::to_string(pid);
  const int memory = open((proc + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  if (memory < 0) return 0;
  int found = 0;
  std::ifstream maps(proc + "/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3) continue;
    if (access[0] != 'r' || access[1] != 'w' || end - begin > kLargest) continue;
    std::string bytes(end - begin, '\0');
    const ssize_t size = pread(memory, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    for (auto at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + 1))
      found += pwrite(memory, to.data(), to.size(), static_cast<off_t>(begin + at)) > 0 ? 1 : 0;
  }
  close(memory);
  return found;
}

}  // namespace troupe::test
