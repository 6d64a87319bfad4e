#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "stages/storage/not_there.h"

namespace troupe::actors {

/// The files of a run as a worker finds them: on its own host by the names that the launcher's host
/// has, or where the host's agent has put them. Workers open files by name, and list no folder.
/// Used by the compute thread alone.
class WorkerFiles {
 public:
  /// Blocks until a file or folder is here, and returns its path. `go_on` is called now and then,
  /// and ends the wait by an exception. Throws Error if it cannot be had.
  using Bring =
      std::function<std::string(const std::string& path, const std::function<void()>& go_on)>;
  /// The files of a run of one host, or of a worker on the launcher's.
  WorkerFiles() = default;
  /// `own_run_dir`: the host does not see the run's directory, and has one of its own.
  WorkerFiles(Bring bring, bool own_run_dir)
      : bring_(std::move(bring)), patience_(60), own_run_dir_(own_run_dir) {}

  /// Whether what the worker writes is for its host's agent: no other launcher can be in its way.
  bool own_run_dir() const { return own_run_dir_; }
  /// What `open` returns for the path here. A file that another host has just written may not be
  /// seen yet, or be seen as one that is gone: that is tried again for a minute.
  template <typename Open>
  auto open(const std::string& path, const std::function<void()>& go_on, const Open& open) const {
    constexpr std::chrono::milliseconds kAgain{100};
    const std::string here = bring_ ? bring_(path, go_on) : path;
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    while (true) try {
        return open(here);
      } catch (const stages::NotThere&) {
        if (std::chrono::steady_clock::now() >= deadline) throw;
        go_on();
        std::this_thread::sleep_for(kAgain);
      }
  }

 private:
  Bring bring_;
  std::chrono::seconds patience_{0};
  bool own_run_dir_ = false;
};

}  // namespace troupe::actors
