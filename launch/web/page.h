#pragma once

namespace troupe::launch {

// What page.html, page.css and page.js were when the program was built: the content of the page's
// main element, its style beside that of reports, and its script.
extern const char* const kPageBody;
extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace troupe::launch
