#pragma once

#include <string>

namespace troupe::launch {

/// Writes to standard output at once. Throws Error{data} with the system's reason if it cannot: who
/// reads the output would take what is missing for all there is.
void print(const std::string& text);
/// Writes to standard output what a terminal may miss.
void show(const std::string& text);
/// Writes to standard error, as a line that begins with the program's name.
void print_error(const std::string& text);

}  // namespace troupe::launch
