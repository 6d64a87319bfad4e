#pragma once

#include <string>
#include <vector>

#include "launch/charts/axis.h"
#include "launch/watch/run_now.h"

namespace troupe::launch {

/// A part of the page, which the page's script puts in the element of this id.
struct Part {
  std::string id;
  std::string markup;
};

/// What a reader has chosen to see.
struct View {
  Scale scale = Scale::linear;  ///< of the loss
  bool routine = false;         ///< whether signs of life are among the events
};

/// The ranks as boxes in the shape of the mesh: a row for each replica, in it a box for each stage,
/// with its shards one below the other. Between stages stands what they send each other.
std::string mesh_picture(const RunNow& run);

/// All parts of the page.
std::vector<Part> parts_of(const RunNow& run, const View& view);

}  // namespace troupe::launch
