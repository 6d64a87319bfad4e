#include "stages/storage/claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "tensor/errors/error.h"

namespace troupe::stages {

bool Claim::stands() const {
  if (file.empty()) return true;
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno != ENOENT && errno != ENOTDIR;
  std::string found(text.size() + 1, '\0');
  const ssize_t got = ::pread(fd, found.data(), found.size(), 0);
  ::close(fd);
  return got < 0 || found.substr(0, static_cast<std::size_t>(got)) == text;
}

std::string Claim::fault() const {
  return fmt::format("run directory {} was removed, moved, or is another launcher's now",
                     file.parent_path().string());
}

void Claim::check() const {
  if (!stands()) throw Error(ErrorKind::data, fault());
}

}  // namespace troupe::stages
