#pragma once

#include <string>

namespace troupe::launch {

/// Writes to standard output at once. Throws Error{data} with the system's reason if it cannot,
/// because a reader would take an incomplete output for a complete one.
void print(const std::string& text);
/// Writes to standard output at once and ignores failures: for terminal control sequences, which a
/// terminal may miss.
void show(const std::string& text);
/// Writes a line to standard error that begins with the program's name.
void print_error(const std::string& text);

}  // namespace troupe::launch
