#pragma once

#include <filesystem>

// Removing checkpoints where NFS keeps a file that a process has open: it renames the file to
// .nfsXXXX in its directory, and removes it when that process closes it. Until then neither it nor
// the directory can be removed, which is no fault.

namespace troupe::stages {

/// Whether a name is one of NFS's for a removed file that is open.
bool is_nfs_rename(const std::filesystem::path& path);

/// Removes a directory with all its content, but what is NFS's to remove: then the directory stays
/// for now. Throws Error{internal} with the path and the system's reason.
void remove_tree(const std::filesystem::path& dir);

}  // namespace troupe::stages
