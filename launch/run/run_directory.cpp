#include "launch/run/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_lock(const fs::path& path, int code) {
  // Both say that another process has the lock; any other error is the file system's.
  if (code == EAGAIN || code == EACCES) refuse_as_live(path);
  throw Error(ErrorKind::manifest,
              fmt::format("run directory {}: its file system gives no lock ({}), without which two "
                          "launchers could write into one run; choose a run.dir on another one, "
                          "or mount it with locks (NFS: a lock service; Lustre: -o flock)",
                          path.string(), std::strerror(code)));
}

/// Locks a file, and returns the descriptor that holds the lock. `refuse` throws for the error code
/// of a lock that is not given.
template <typename Refuse>
int lock_file(const std::string& file, const Refuse& refuse) {
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    throw Error(ErrorKind::data, fmt::format("cannot write {}: {}", file, std::strerror(errno)));
  struct flock lock = whole_file();
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return fd;
  const int code = errno;
  close(fd);
  refuse(code);
  return -1;
}

/// A text for the lock file that no other launcher writes: who this is, for people, and random
/// digits.
std::string own_text() {
  std::random_device random;
  return fmt::format("process {}, {:08x}{:08x}\n", getpid(), random(), random());
}

/// Refuses a file system that cannot hold checkpoints now, rather than when the first is due.
void check_can_save(const fs::path& path) {
  try {
    stages::try_saving(path / kCheckpoints);
  } catch (const Error& error) {
    throw Error(ErrorKind::manifest,
                fmt::format("run directory {} cannot hold checkpoints: {}; choose a run.dir on "
                            "another file system",
                            path.string(), error.what()));
  }
}

}  // namespace

void refuse_as_live(const fs::path& path) {
  throw Error(
      ErrorKind::manifest,
      fmt::format("run directory {} is in use by a running launcher; end it with: troupe stop {}",
                  path.string(), path.string()));
}

void RunDirectory::check_free(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  if (!fs::is_directory(path, error))
    throw Error(ErrorKind::manifest,
                fmt::format("run directory {} is a file; choose another run.dir", path.string()));
  if (fs::is_empty(path, error)) return;
  if (holds_run(path))
    throw Error(ErrorKind::manifest, fmt::format("run directory {} holds a run already; choose "
                                                 "another run.dir, or go on with it: troupe launch "
                                                 "--resume {}",
                                                 path.string(), path.string()));
  throw Error(ErrorKind::manifest,
              fmt::format("run directory {} is not empty; choose another run.dir", path.string()));
}

RunDirectory RunDirectory::create(const fs::path& path) {
  check_free(path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw Error(ErrorKind::manifest,
                fmt::format("cannot create run directory {}: {}", path.string(), error.message()));
  try {
    return own(path);
  } catch (...) {
    if (has_launcher(path)) throw;  // one that began at the same time
    for (const char* made : {kLockFile, kTermFile, kLogs, kCheckpoints})
      fs::remove(path / made, error);
    fs::remove(path, error);  // so that the same command can be given again
    throw;
  }
}

RunDirectory RunDirectory::reopen(const fs::path& path) {
  require_run(path);
  return own(path);
}

RunDirectory RunDirectory::take_over(const fs::path& path) {
  require_run(path);
  const std::int64_t term = newest_term(path).number + 1;
  const auto refuse = [&](int) {
    throw Error(ErrorKind::retry,
                fmt::format("another launcher is just taking over {}", path.string()));
  };
  // The new lock has a name of its own until it is locked and the term is written: of several
  // launchers that see the same term one gets it. A file that one of them left is taken up.
  const fs::path unfinished = path / fmt::format("{}.{}", kLockFile, term);
  RunDirectory directory(path, lock_file(unfinished, refuse), term);
  if (newest_term(path).number >= term) refuse(0);
  directory.write_claim();
  directory.write_term();
  std::error_code error;
  fs::rename(unfinished, path / kLockFile, error);
  if (error)
    throw Error(ErrorKind::data,
                fmt::format("cannot replace {}: {}", (path / kLockFile).string(), error.message()));
  if (newest_term(path).number > term) refuse(0);  // its old launcher was replaced meanwhile
  directory.prepare();
  return directory;
}

RunDirectory RunDirectory::own(const fs::path& path) {
  const int lock = lock_file(path / kLockFile, [&](int code) { refuse_lock(path, code); });
  RunDirectory directory(path, lock, newest_term(path).number + 1);
  directory.write_claim();
  directory.prepare();
  directory.write_term();
  return directory;
}

void RunDirectory::prepare() const {
  fs::create_directories(path_ / kLogs);
  fs::create_directories(path_ / kCheckpoints);
  check_can_save(path_);
}

RunDirectory::RunDirectory(fs::path path, int lock_fd, std::int64_t term)
    : path_(std::move(path)),
      lock_fd_(lock_fd),
      claim_({.file = path_ / kLockFile, .text = own_text()}),
      term_(term_of_this_process(term)) {}

void RunDirectory::write_claim() const {
  // Written into the locked file itself: one that is renamed to its name would not be locked.
  const std::string& text = claim_.text;
  if (ftruncate(lock_fd_, 0) != 0 || pwrite(lock_fd_, text.data(), text.size(), 0) != ssize(text))
    throw Error(ErrorKind::data,
                fmt::format("cannot write {}: {}", claim_.file.string(), std::strerror(errno)));
}

void RunDirectory::write_term() const {
  stages::PublishedFile file(path_ / kTermFile);
  file.file().write(nlohmann::json(term_).dump() + "\n");
  file.publish();
}

std::optional<RunDirectory::Loss> RunDirectory::lost() const {
  if (claim_.stands()) return std::nullopt;
  Term newest;
  try {
    newest = newest_term(path_);
  } catch (const Error&) {  // it is another user's
  }
  if (newest.number <= term_.number)
    return Loss{.kind = ErrorKind::internal, .text = claim_.fault()};
  return Loss{.kind = ErrorKind::retry,
              .text = fmt::format("the run in {} has another launcher now ({}), so this one, of "
                                  "term {}, ends",
                                  path_.string(), to_string(newest), term_.number)};
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      claim_(std::move(other.claim_)),
      term_(std::move(other.term_)) {}

RunDirectory::~RunDirectory() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

void RunDirectory::write(const std::string& name, const std::string& content) const {
  claim_.check();
  stages::PublishedFile file(path_ / name);
  file.file().write(content);
  file.publish();
}

void RunDirectory::write_private(const std::string& name, const std::string& content) const {
  claim_.check();
  const std::string target = path_ / name;
  const std::string beside = target + ".new";
  unlink(beside.c_str());
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = fd >= 0 &&
                       ::write(fd, content.data(), content.size()) == std::ssize(content) &&
                       fsync(fd) == 0;
  if (fd >= 0) close(fd);
  if (!written || rename(beside.c_str(), target.c_str()) != 0)
    throw Error(ErrorKind::data, fmt::format("cannot write {}: {}", target, std::strerror(errno)));
}

void RunDirectory::remove(const std::string& name) const {
  std::error_code ignored;
  if (claim_.stands()) fs::remove(path_ / name, ignored);
}

void RunDirectory::discard() const {
  std::error_code ignored;
  if (claim_.stands()) fs::remove_all(path_, ignored);
}

}  // namespace troupe::launch
