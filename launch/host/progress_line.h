#pragma once

#include <string>

#include "stages/storage/progress.h"

namespace troupe::launch {

/// Tells on standard error how far a long work is, how fast it is and when it will be done: on a
/// terminal in a line that is written anew, else in a line every five seconds, none for shorter
/// work. A line is "<doing> 1.2 GiB, 34 % done, ...", the last one "<did> 1.2 GiB in 5.6 s, ...";
/// without `did` nothing is left on a terminal. `by` follows the rate: " with 2 threads". One
/// thread calls the result.
stages::Progress progress_line(const std::string& doing, const std::string& did = "",
                               const std::string& by = "");

/// Tells on standard error how far a work of a few long parts is, of which `done` and `total` are
/// numbers: a line for each, "<doing>, 40 % done, 0:01:20 left", and on a terminal the first at
/// once. Nothing is left of them there.
stages::Progress progress_of_parts(const std::string& doing);

}  // namespace troupe::launch
