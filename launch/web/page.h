#pragma once

namespace troupe::launch {

/// The content of page.html when the program was built.
extern const char* const kPage;

}  // namespace troupe::launch
