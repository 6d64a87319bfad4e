#pragma once

#include <stdexcept>
#include <string>

namespace troupe::emulated_grid {

/// A line of a kernel's source. Two places are one if file and line are the same.
struct Place {
  const char* file = "";
  int line = 0;

  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const Place& other) const;
};

/// "rms_norm.cu:42".
std::string to_string(const Place& place);

/// What a kernel did that a GPU would not forgive, or not always: a race, a deadlock, an access
/// outside an array, a launch that no device takes.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace troupe::emulated_grid
