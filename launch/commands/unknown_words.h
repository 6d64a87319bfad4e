#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

// Messages about words of a command line that mean nothing, with what was meant.

namespace troupe::launch {

/// The message about a command that there is not.
std::string unknown_command(std::string_view given, std::span<const std::string_view> commands);
/// The message about the words that a command has left over, of which there is at least one.
std::string unknown_argument(const CLI::App& command, std::span<const std::string> left);

}  // namespace troupe::launch
