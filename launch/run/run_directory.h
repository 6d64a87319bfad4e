#pragma once

#include <fcntl.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/run/term.h"
#include "stages/storage/claim.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

/// A run directory that this process owns. The object holds the directory's lock as long as it
/// lives. The lock is a kernel lock, so a dead launcher holds none. Whoever removes the directory,
/// or the lock, can make it another launcher's nevertheless: then the claim falls, and this object
/// changes nothing there any more.
class RunDirectory {
 public:
  /// Throws Error{manifest} naming the directory if it exists and is not empty. Changes nothing.
  static void check_free(const std::filesystem::path& path);
  /// Creates the directory with its fixed folders. Throws Error{manifest} naming the directory if
  /// it exists and is not empty, or if its file system has no locks or cannot hold checkpoints;
  /// then nothing is left.
  static RunDirectory create(const std::filesystem::path& path);
  /// Takes over the directory of an existing run. Throws Error{data} if it is not a run directory,
  /// Error{manifest} while another launcher owns it, and for the file systems that create()
  /// refuses.
  static RunDirectory reopen(const std::filesystem::path& path);
  /// Does that although another launcher holds the lock, which is known to be gone from the run: it
  /// is stopped, or its host cut off. Its claim falls, and if it comes back it sees the higher
  /// term. Throws Error{retry} if a third launcher is doing the same.
  static RunDirectory take_over(const std::filesystem::path& path);
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  ~RunDirectory();

  const std::filesystem::path& path() const { return path_; }
  const stages::Claim& claim() const { return claim_; }
  /// That of this launcher.
  const Term& term() const { return term_; }
  /// Why this launcher is not to change anything there any more.
  struct Loss {
    ErrorKind kind;    ///< retry: the run has another launcher; internal: the directory is gone
    std::string text;  ///< for people, naming the directory
  };
  /// None while the claim stands. Callable from any thread; throws nothing.
  std::optional<Loss> lost() const;
  /// Replaces one of the directory's files atomically: it has either its new content or the content
  /// that it had before. Throws Error{data} if the claim has fallen.
  void write(const std::string& name, const std::string& content) const;
  /// Writes a secret: only the file's owner can read it, from its first byte on.
  void write_private(const std::string& name, const std::string& content) const;
  void remove(const std::string& name) const;
  /// Removes the directory with all its content, for a run that has done nothing. Like remove(),
  /// does nothing once the claim has fallen.
  void discard() const;

 private:
  RunDirectory(std::filesystem::path path, int lock_fd, std::int64_t term);
  /// Takes the lock and all that belongs to it.
  static RunDirectory own(const std::filesystem::path& path);
  void write_claim() const;
  void write_term() const;
  /// Creates the missing folders, and checks what the file system can do.
  void prepare() const;

  std::filesystem::path path_;
  int lock_fd_ = -1;
  stages::Claim claim_;
  Term term_;
};

/// A lock of all of a file, for fcntl.
inline struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// Throws Error{manifest}: a living launcher owns the directory.
[[noreturn]] void refuse_as_live(const std::filesystem::path& path);

/// Whether the directory holds a run.
bool holds_run(const std::filesystem::path& path);

// These throw Error{data} naming a file that this user may not read.

/// Throws Error{data} naming the directory if it holds no run.
void require_run(const std::filesystem::path& path);
/// Throws Error{data} naming a file or a folder that is there and may not be read.
void require_readable(const std::filesystem::path& path);
/// Whether a living launcher owns the directory.
bool has_launcher(const std::filesystem::path& path);
/// A JSON object in one of the directory's files; none if the file is missing or torn.
std::optional<nlohmann::json> read_json(const std::filesystem::path& path);

/// The JSON objects in the lines of a file, as of events.jsonl. A line that is not whole is left
/// out, and a file that cannot be opened has none.
std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path);

// Names of files and folders in a run directory.
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kEventsFile = "events.jsonl";
inline constexpr const char* kMeasuredStepFile = "measured_step.json";
inline constexpr const char* kMachineFile = "machine.json";
inline constexpr const char* kTensorBoardFolder = "tensorboard";
inline constexpr const char* kControlFile = "control.json";
inline constexpr const char* kInvitationFile = "join.json";  ///< for hosts that join a live run
inline constexpr const char* kHostsFile = "hosts.json";  ///< for a launcher that takes over the run
inline constexpr const char* kOutcomeFile = "outcome.json";
inline constexpr const char* kLockFile = "lock";
inline constexpr const char* kTermFile = "term.json";
inline constexpr const char* kLogs = "logs";
inline constexpr const char* kCollectivesFile = "collectives.jsonl";  ///< in logs/rank-R
inline constexpr const char* kLauncherLog = "logs/launcher.log";
inline constexpr const char* kHookLog = "logs/on_save.log";
inline constexpr const char* kCheckpoints = "checkpoints";

}  // namespace troupe::launch
