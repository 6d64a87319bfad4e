#pragma once

namespace troupe::launch {

/// The content of style.css when the program was built.
extern const char* const kStyle;

}  // namespace troupe::launch
