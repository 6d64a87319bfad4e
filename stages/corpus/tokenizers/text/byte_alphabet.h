#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::stages {

// GPT-2's alphabet, in which a file of characters spells tokens of bytes: a byte is the character
// of its value if that is visible Latin-1, else the next unused character from U+0100 on.

/// The character of a byte, in UTF-8.
std::string letter_of_byte(unsigned char byte);
/// The bytes that a token in the alphabet stands for; none if it has another character.
std::optional<std::string> bytes_of_letters(std::string_view token);

}  // namespace troupe::stages
