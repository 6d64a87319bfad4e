#pragma once

#include <string>
#include <vector>

#include "launch/monitors/run_picture.h"

namespace troupe::launch {

struct PageOptions {
  int width = 80;
  int height = 24;
  bool frozen = false;       ///< the user has stopped the updates
  bool events_only = false;  ///< the list of events takes the whole page
  int first_rank = 0;        ///< number of ranks that are scrolled off the top
};

/// The lines of the terminal view: at most `height`, each of at most `width` columns of printable
/// ASCII, whatever the run sends. A pure function.
std::vector<std::string> terminal_page(const RunPicture& run, const PageOptions& options);

}  // namespace troupe::launch
