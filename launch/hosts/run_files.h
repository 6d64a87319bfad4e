#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/files/files_offer.h"
#include "actors/hosts/hosts.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Which of a run's files its hosts see, and what becomes of those that they do not: it is told
/// before the run begins, and hosts that join later are asked the same.
class RunFiles {
 public:
  using Tell = std::function<void(const std::string& lines)>;
  /// `manifest` is the workers': its run directory need not be there yet, its inputs are.
  RunFiles(std::shared_ptr<actors::Hosts> door, const Manifest& manifest);
  /// Takes the file away by which hosts see that they share the run's directory.
  ~RunFiles();
  RunFiles(const RunFiles&) = delete;

  /// Asks all hosts, tells which share nothing and which see new files late, and brings them what
  /// they do not see. Throws Error{unavailable} that names a host, what it does not see and the
  /// remedy, and Error{data} if no file can be written where the run's directory is to be.
  void settle(const Tell& tell);
  /// The run's directory is there: hosts that join from now on look for a file in it.
  void open(const std::filesystem::path& run_dir);

 private:
  std::map<std::string, actors::FilesSeen> ask(const actors::FilesWanted& question,
                                               const std::vector<std::string>& hosts);
  void measure(const std::vector<std::string>& sharing, const Tell& tell);
  void bring(const std::map<std::string, actors::FilesAway>& away, const Tell& tell);
  std::vector<std::string> present() const;

  const std::shared_ptr<actors::Hosts> door_;
  actors::FilesOffer offer_;
  std::filesystem::path marker_;  ///< of hosts that join later; empty: none yet
};

}  // namespace troupe::launch
