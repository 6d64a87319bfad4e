#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

namespace troupe::test {

/// Longer runs of addresses are a sanitizer's records, nearly all of them without memory.
inline constexpr unsigned long kLargest = 1ul << 27;
/// Memory is read and overwritten in pieces, because the process goes on: what was read long before
/// it is overwritten may be other memory by then.
inline constexpr unsigned long kPiece = 1ul << 18;

/// Overwrites the bytes `from`, wherever they lie in the writable memory that a descendant of this
/// process shares with no other, by as many bytes `to`. Returns how often they were there.
inline int overwrite(pid_t pid, const std::string& from, const std::string& to) {
  const std::string proc = "/proc/" + std::to_string(pid);
  const int memory = open((proc + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  if (memory < 0) return 0;
  int found = 0;
  std::string bytes(kPiece + from.size() - 1, '\0');
  std::ifstream maps(proc + "/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3) continue;
    const bool is_private = access[0] == 'r' && access[1] == 'w' && access[3] == 'p';
    if (!is_private || end - begin > kLargest) continue;
    for (unsigned long piece = begin; piece < end; piece += kPiece) {
      const auto size = std::min<unsigned long>(end - piece, bytes.size());
      const ssize_t got = pread(memory, bytes.data(), size, static_cast<off_t>(piece));
      const std::string_view read(bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
      for (auto at = read.find(from); at != read.npos; at = read.find(from, at + 1))
        found += pwrite(memory, to.data(), to.size(), static_cast<off_t>(piece + at)) > 0 ? 1 : 0;
    }
  }
  close(memory);
  return found;
}

}  // namespace troupe::test
