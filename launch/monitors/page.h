#pragma once

namespace troupe::launch {

/// page.html, as it was when the program was built.
extern const char* const kPage;

}  // namespace troupe::launch
