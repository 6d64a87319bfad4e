#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

// A library for LD_PRELOAD, with which a program meets a file system that lacks something. The
// environment variable TROUPE_TEST_FILES is a list of words: no-locks (ENOLCK, as NFS without a
// lock service), no-links and no-modes (EPERM, as exFAT), no-directory-sync (EINVAL, as CIFS), and
// no-renames (of directories: EMFILE, as some object stores), nfs-renames (each state.json counts
// as open when it is removed, which gives it a name that cannot be removed). TROUPE_TEST_DISK names
// a directory that has room for TROUPE_TEST_DISK_BYTES bytes of files.

namespace {

bool lacks(const char* word) {
  const char* words = std::getenv("TROUPE_TEST_FILES");
  return words && std::strstr(words, word);
}

int fail(int code) {
  errno = code;
  return -1;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// Whether so many bytes more in the file of this descriptor are beyond the disk's room.
bool is_full(int fd, std::size_t bytes) {
  const char* disk = std::getenv("TROUPE_TEST_DISK");
  const char* room = std::getenv("TROUPE_TEST_DISK_BYTES");
  if (!disk || !room) return false;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (readlink(link.c_str(), path.data(), path.size() - 1) < 0 ||
      std::strncmp(path.data(), disk, std::strlen(disk)) != 0)
    return false;
  std::size_t used = bytes;
  std::error_code gone;
  for (std::filesystem::recursive_directory_iterator entry(disk, gone), end; !gone && entry != end;
       entry.increment(gone)) {
    struct stat status {};
    if (lstat(entry->path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
      used += static_cast<std::size_t>(status.st_blocks) * 512;
  }
  return used > std::strtoull(room, nullptr, 10);
}

int lock_or_else(const char* name, int fd, int command, void* argument) {
  const bool locks = command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK ||
                     command == F_SETLK || command == F_SETLKW;
  if (locks && lacks("no-locks")) return fail(ENOLCK);
  return real<int(int, int, ...)>(name)(fd, command, argument);
}

}  // namespace

extern "C" {

int link(const char* from, const char* to) noexcept {
  return lacks("no-links") ? fail(EPERM) : real<int(const char*, const char*)>("link")(from, to);
}

int fchmod(int fd, mode_t mode) noexcept {
  return lacks("no-modes") ? fail(EPERM) : real<int(int, mode_t)>("fchmod")(fd, mode);
}

int chmod(const char* path, mode_t mode) noexcept {
  return lacks("no-modes") ? fail(EPERM) : real<int(const char*, mode_t)>("chmod")(path, mode);
}

int fsync(int fd) {
  struct stat status {};
  if (lacks("no-directory-sync") && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
    return fail(EINVAL);
  return real<int(int)>("fsync")(fd);
}

int rename(const char* from, const char* to) noexcept {
  struct stat status {};
  if (lacks("no-renames") && stat(from, &status) == 0 && S_ISDIR(status.st_mode))
    return fail(EMFILE);
  return real<int(const char*, const char*)>("rename")(from, to);
}

int unlinkat(int dir, const char* path, int flags) noexcept {
  const std::string_view name =
      std::string_view(path).substr(std::string_view(path).rfind('/') + 1);
  if (lacks("nfs-renames") && name.starts_with(".nfs")) return fail(EBUSY);
  if (lacks("nfs-renames") && name == "state.json") {
    const std::string kept(path, path + std::strlen(path) - name.size());
    return renameat(dir, path, dir, (kept + ".nfs0001").c_str());
  }
  return real<int(int, const char*, int)>("unlinkat")(dir, path, flags);
}

int remove(const char* path) noexcept {
  struct stat status {};
  const bool is_folder = lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
  return unlinkat(AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}

int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return lock_or_else("fcntl", fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return lock_or_else("fcntl64", fd, command, argument);
}

ssize_t write(int fd, const void* bytes, std::size_t count) {
  if (is_full(fd, count)) return fail(ENOSPC);
  return real<ssize_t(int, const void*, std::size_t)>("write")(fd, bytes, count);
}

ssize_t pwrite(int fd, const void* bytes, std::size_t count, off_t offset) {
  if (is_full(fd, count)) return fail(ENOSPC);
  return real<ssize_t(int, const void*, std::size_t, off_t)>("pwrite")(fd, bytes, count, offset);
}

ssize_t pwrite64(int fd, const void* bytes, std::size_t count, off64_t offset) {
  if (is_full(fd, count)) return fail(ENOSPC);
  return real<ssize_t(int, const void*, std::size_t, off64_t)>("pwrite64")(fd, bytes, count,
                                                                           offset);
}

}  // extern "C"
