#include "stages/storage/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"

namespace troupe::stages {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* action, int code) {
  const std::string text =
      fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(code));
  if (code == ENOSPC || code == EDQUOT) throw DiskFull(text);
  throw Error(ErrorKind::internal, text);
}

void refuse_if_taken(const std::filesystem::path& path) {
  if (file_exists(path))
    throw data_error("{} exists and is not replaced; name a new directory", path.string());
}

/// The path without a trailing slash.
std::filesystem::path trimmed(const std::filesystem::path& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

OutputFile OutputFile::create(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail(path, "create", errno);
  return OutputFile(path, fd);
}

OutputFile OutputFile::create_beside(const std::filesystem::path& path) {
  // mkstemp() would give the mode 0600, and some file systems refuse to change a mode.
  std::random_device random;
  while (true) {
    const std::string name = fmt::format("{}.{:08x}", path.string(), random());
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0) return OutputFile(name, fd);
    if (errno != EEXIST) fail(path, "create a file beside it", errno);
  }
}

OutputFile OutputFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) fail(path, "open", errno);
  return OutputFile(path, fd);
}

/// Calls put(bytes) for what is left until all bytes are written.
template <typename Put>
void OutputFile::write_all(std::span<const std::byte> bytes, const Put& put) {
  while (!bytes.empty()) {
    const ssize_t done = put(bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(path_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write_all(bytes, [&](auto left) { return ::write(fd_, left.data(), left.size()); });
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t end = offset + bytes.size();
  write_all(bytes, [&](auto left) {
    return ::pwrite(fd_, left.data(), left.size(), static_cast<off_t>(end - left.size()));
  });
}

void OutputFile::resize(std::uint64_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail(path_, "extend", errno);
}

void OutputFile::sync_and_close() {
  if (::fsync(fd_) != 0) fail(path_, "sync", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "close", errno);
}

PublishedFile::PublishedFile(std::filesystem::path path)
    : path_(std::move(path)), file_(OutputFile::create_beside(path_)) {}

PublishedFile::~PublishedFile() {
  std::error_code ignored;
  if (!published_) std::filesystem::remove(file_.path(), ignored);
}

void PublishedFile::publish() {
  file_.sync_and_close();
  if (::rename(file_.path().c_str(), path_.c_str()) != 0) fail(path_, "rename to", errno);
  published_ = true;
  sync_directory(path_.parent_path());
}

PublishedDirectory::PublishedDirectory(std::filesystem::path path) : path_(trimmed(path)) {
  refuse_if_taken(path_);
  std::random_device random;
  unfinished_ = path_.string() + fmt::format(".{:08x}{:08x}.tmp", random(), random());
  std::error_code code;
  std::filesystem::create_directories(unfinished_, code);
  if (code)  // the user named a place where nothing can be written
    throw data_error("{}: cannot create: {}", path_.string(), code.message());
}

PublishedDirectory::~PublishedDirectory() {
  std::error_code ignored;
  if (!published_) std::filesystem::remove_all(unfinished_, ignored);
}

void PublishedDirectory::publish() {
  refuse_if_taken(path_);
  sync_directory(unfinished_);
  std::error_code code;
  std::filesystem::rename(unfinished_, path_, code);
  refuse_if(code, path_.string() + ": cannot rename to");
  published_ = true;
  sync_directory(path_.parent_path());
}

void refuse_if(const std::error_code& code, const std::string& what) {
  if (code) throw Error(ErrorKind::internal, fmt::format("{}: {}", what, code.message()));
}

void write_whole_file(const std::filesystem::path& path, std::string_view content) {
  OutputFile file = OutputFile::create(path);
  file.write(content);
  file.sync_and_close();
}

void sync_directory(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory.empty() ? "." : directory;
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(path, "open", errno);
  const int result = ::fsync(fd);
  const int code = errno;
  ::close(fd);
  // These say that the file system has no such call for directories; any other is a failure of it.
  if (result != 0 && code != EINVAL && code != ENOSYS && code != EOPNOTSUPP)
    fail(path, "sync", code);
}

}  // namespace troupe::stages
