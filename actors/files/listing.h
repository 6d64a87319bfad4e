#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/messages/file_messages.h"

namespace troupe::actors {

/// Which files a path stands for. The files lie in `folder`.
struct FilesAt {
  std::filesystem::path folder;
  std::vector<ListedFile> files;  ///< by name
};
/// The file at a path, the regular files right in a folder, or an indexed dataset's two by the name
/// of its .bin or the prefix. Without sums. Throws Error{data} if there is none.
FilesAt files_at(const std::filesystem::path& path);

/// XXH64 of a file's bytes. Throws Error{data} with the path and the system's reason.
std::uint64_t sum_of_file(const std::filesystem::path& path);

/// Whether a name from another host can only mean a file in a folder: it has no slash and is no
/// "..".
bool is_file_name(const std::string& name);

/// Whether a path lies in a folder, or is it, as both are spelled: neither needs to be there.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace troupe::actors
