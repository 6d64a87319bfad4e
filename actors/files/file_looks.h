#pragma once

#include <stop_token>

#include "actors/messages/join_messages.h"

namespace troupe::actors {

/// Looks for files on this host, again and again until they are as large as the question says, its
/// patience ends, or `stop` is requested.
FilesSeen look_for_files(const FilesWanted& wanted, const std::stop_token& stop = {});

}  // namespace troupe::actors
