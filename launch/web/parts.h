#pragma once

#include <map>
#include <string>

#include "launch/charts/axis.h"
#include "launch/watch/run_now.h"

namespace troupe::launch {

/// What a reader has chosen to see.
struct View {
  Scale scale = Scale::linear;  ///< of the loss
  bool routine = false;         ///< whether signs of life are among the events
  auto operator<=>(const View&) const = default;
};

/// The ranks as boxes in the shape of the mesh: a row for each replica, in it a box for each stage,
/// with its shards one below the other. Between stages stands what they send each other.
std::string mesh_picture(const RunNow& run);

/// The markup of all parts of the page, each by the id of the element in which the page's script
/// puts it.
std::map<std::string, std::string> parts_of(const RunNow& run, const View& view);

}  // namespace troupe::launch
