#include "stages/storage/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stages/storage/data_error.h"
#include "stages/storage/not_there.h"
#include "tensor/errors/error.h"
#include "tensor/errors/shortage.h"

namespace troupe::stages {
namespace {

/// Nothing is wrong with the file then.
void fail_for_lack_of_descriptors(const std::filesystem::path& path, int code) {
  if (code == EMFILE || code == ENFILE)
    throw Error(ErrorKind::unavailable,
                fmt::format("{}: cannot open: the machine has {}", path.string(), shortage(code)));
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* action, int code) {
  fail_for_lack_of_descriptors(path, code);
  throw data_error("{}: cannot {}: {}", path.string(), action, std::strerror(code));
}

}  // namespace

InputFile::InputFile(std::filesystem::path path, int fd, std::uint64_t size)
    : path_(std::move(path)), fd_(fd), size_(size) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile InputFile::open(const std::filesystem::path& path) {
  // Non-blocking, so that opening a FIFO cannot hang; it has no effect on regular files.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && (errno == ENOENT || errno == ESTALE))
    throw NotThere(fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
  if (fd < 0) fail(path, "open", errno);
  InputFile file(path, fd, 0);
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail(path, "examine", errno);
  if (S_ISDIR(status.st_mode)) fail(path, "read", EISDIR);
  if (!S_ISREG(status.st_mode)) throw data_error("{}: not a regular file", path.string());
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "read", errno);
    if (got == 0)
      throw data_error("{}: ends at byte {}, {} bytes too early", path_.string(), offset,
                       out.size());
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void InputFile::refuse_if_cut() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail(path_, "examine", errno);
  if (static_cast<std::uint64_t>(status.st_size) < size_)
    throw data_error("{}: {} bytes, but {} when it was opened", path_.string(), status.st_size,
                     size_);
}

bool file_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string why_unreadable(const std::filesystem::path& path, const std::string& missing) {
  // As InputFile::open() does it: whoever asks may have failed for another reason than access.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const int code = fd < 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  fail_for_lack_of_descriptors(path, code);
  if (code == 0 || code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG) return missing;
  return fmt::format("cannot be read: {}", std::strerror(code));
}

std::string read_whole_file(const std::filesystem::path& path, std::uint64_t limit) {
  const InputFile file = InputFile::open(path);
  if (file.size() > limit)
    throw data_error("{}: {} bytes, at most {} are expected here", path.string(), file.size(),
                     limit);
  std::string content(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace troupe::stages
