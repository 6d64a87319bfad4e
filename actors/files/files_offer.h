#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/messages/file_messages.h"
#include "actors/messages/join_messages.h"

namespace troupe::actors {

/// Files that a run's workers read and write, as they are on the launcher's host, for hosts that
/// may not see them.
struct FilesOffer {
  /// A file or folder that workers open by its path.
  struct Input {
    std::string path;
    std::vector<std::string> files;   ///< of which it consists, with their paths
    std::vector<std::int64_t> bytes;  ///< of each
  };
  std::string run_dir;
  /// A file with a name that nobody else uses: who sees it sees the run's directory.
  std::string marker;
  std::int64_t marker_bytes = 0;
  std::vector<Input> tokens;   ///< token files, which are known by their digest
  std::vector<Input> folders;  ///< the checkpoint that the run starts from
  bool gathers = false;        ///< whether a host may have a run directory of its own
};

/// The question that tells what a host sees of an offer. A run directory that it does not see may
/// be seen some time later.
FilesWanted question_of(const FilesOffer& offer);
/// What a host that gave this answer is to be brought: what it does not see, and if it does not see
/// the run's directory all inputs, since those of the same names may be others there.
FilesAway away_of(const FilesOffer& offer, const FilesSeen& seen);
/// Why a host that is to be brought this cannot take part; none if it can.
std::optional<std::string> refusal_of(const FilesOffer& offer, const FilesAway& away);

}  // namespace troupe::actors
