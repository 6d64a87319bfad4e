#pragma once

#include <string>

#include "launch/charts/axis.h"
#include "launch/charts/markup.h"

// What all charts of a report share. A chart is as wide as the page lets it be, without a script
// and with letters that keep their size: positions across are shares of the width, heights are
// pixels, and lines lie in a picture of 1000 columns that is stretched without its strokes.

namespace troupe::launch {

/// Width of the picture that is stretched, in its own unit.
inline constexpr double kColumns = 1000;

struct Plot {
  std::string label;   ///< what it shows, for those who do not see it
  double height = 0;   ///< pixels
  std::string names;   ///< SVG in the column left of it, whose right end is kNames
  std::string canvas;  ///< SVG of the chart itself
};
/// Right end of names, in pixels.
inline constexpr double kNames = 62;

std::string plot(const Plot& plot);

/// A text of SVG at a share of the width and a height in pixels.
std::string label_at(double share, double y, std::string_view look, std::string_view text);
/// A text in the column of names.
std::string name_at(double y, std::string_view text);
/// A line from top to bottom and a label below it for each tick; every second label vanishes on
/// narrow screens.
std::string x_ticks(const Axis& axis, double bottom);
/// SVG whose paths are stretched: x from 0 to kColumns, y in pixels.
std::string stretched(double height, std::string_view paths);
/// A box over shares of the width, from `y` on down `height` pixels, with SVG in it.
std::string box_at(Attributes look, double from, double width, double y, double height,
                   std::string_view content = "");
/// A line over the whole width.
std::string grid_line(double y);
/// SVG around a point at a share of the width, in pixels from it.
std::string at_point(double share, double y, std::string_view shapes);
/// Text that appears when one points at the element it is in.
std::string hint(std::string_view text);
/// A shape of 26 to 12 pixels with what it stands for, in a list of these.
std::string legend_item(std::string_view shape, std::string_view name);

}  // namespace troupe::launch
