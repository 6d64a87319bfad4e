#pragma once

#include <caf/actor.hpp>
#include <cstdint>
#include <string>
#include <vector>

// How files travel between the launcher's host and others, block by block: whoever wants a file
// asks for its blocks, a few ahead, so that neither side holds more of it in memory.

namespace troupe::actors {

/// The most bytes of a block.
inline constexpr std::uint32_t kBlockBytes = 1 << 15;

/// The question which files a path of the receiver's host stands for, and its answer: a file, the
/// files of a folder, or the two of an indexed dataset.
struct ListingWanted {
  std::string path;
  bool sums = false;  ///< with ListedFile::sum, for which each file is read
};
struct ListedFile {
  std::string name;  ///< in its folder
  std::uint64_t bytes = 0;
  std::int64_t written_ns = 0;  ///< when it was written last, as its host's clock and kernel say
  std::uint64_t sum = 0;        ///< XXH64 of the bytes; 0 if nobody asked for it
  bool operator==(const ListedFile&) const = default;
};
struct Listing {
  std::vector<ListedFile> files;
  bool absent = false;  ///< nothing is there
  std::string error;    ///< why there are none to list; empty: these are all
};

/// The question for some bytes of a file of a listing, and its answer.
struct BlockWanted {
  std::string path;  ///< as the listing was asked for
  std::string name;  ///< one of its files
  std::uint64_t offset = 0;
  std::uint32_t size = 0;  ///< kBlockBytes at most
};
struct Block {
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  std::string bytes;  ///< empty: `size` zeros, of which files with parts of others have many
  std::string error;  ///< why there are none; empty: here they are
};

/// The question of a worker to the agent of its host: a file or folder that the launcher's host has
/// by this name is to be there. The answer comes once it is.
struct FilesNeeded {
  std::string token;  ///< WorkerBootstrap::token
  std::string path;
};
struct FilesHere {
  std::string path;   ///< on this host
  std::string error;  ///< why they cannot be had; empty: they are there
  int kind = 0;       ///< ErrorKind's value of the error
};

/// What a host does not see of a run's files, and is brought. The order to bring them now, and its
/// answer.
struct FilesAway {
  caf::actor source;  ///< whom to ask for files of the launcher's host
  /// The run's directory if the host does not see it: its workers write into one of the host's own.
  std::string run_dir;
  std::vector<std::string> tokens;   ///< token files
  std::vector<std::string> folders;  ///< the checkpoint that the run starts from
};
struct FilesBrought {
  std::string error;  ///< why they cannot be had; empty: they are there
  caf::actor parts;   ///< who has parts of checkpoints, if the run's directory is away
};

/// The order to remove the parts of checkpoints that a host of its own run directory has kept:
/// nobody writes or reads them any more.
struct PartsDropped {};

/// What a worker has written last into a file of its log folder, which its host alone has.
struct LogTail {
  std::string folder;  ///< its name, as "rank-3"
  std::string file;
  std::string text;
  bool replaces = false;  ///< all that was there; else it follows that
};

}  // namespace troupe::actors
