#pragma once

#include <map>
#include <string>

namespace troupe::launch {

/// What must be equal on all hosts of a run, so that they compute the same bits and understand each
/// other, by its name: the program, the libraries that it found here, and what the processor can do
/// that changes how products are computed, unless hosts may differ in that.
std::map<std::string, std::string> own_traits(bool with_processor = true);

}  // namespace troupe::launch
