#pragma once

#include <string>
#include <string_view>

namespace troupe::stages {

/// Unicode's normal forms.
enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// The normal form of well-formed UTF-8 as Hugging Face's tokenizers have it, which know Unicode 9.
std::string normal_form(std::string_view text, NormalForm form);

/// Whether the normal form of a text is that of its parts if the second begins with this character.
/// Not all such characters are told.
bool begins_normal_form(char32_t character);

/// The lower case of each character, whatever is next to it.
std::string lower_case(std::string_view text);

}  // namespace troupe::stages
