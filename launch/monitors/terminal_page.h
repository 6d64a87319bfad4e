#pragma once

#include <string>
#include <vector>

#include "launch/monitors/run_picture.h"

namespace troupe::launch {

struct PageOptions {
  int width = 80;
  int height = 24;
  bool frozen = false;       ///< the user has stopped the picture
  bool events_only = false;  ///< the whole page is the list of events
  int first_rank = 0;        ///< scrolled so far down the ranks
};

/// The terminal view's lines for a picture: at most `height`, each of at most `width` columns of
/// printable ASCII, whatever the run sends. A pure function.
std::vector<std::string> terminal_page(const RunPicture& run, const PageOptions& options);

}  // namespace troupe::launch
