#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Markup that is well-formed XML and means the same as HTML. Functions that make it return text in
// which every element is closed.

namespace troupe::launch {

/// Text as the content of an element or of an attribute. Bytes that are not UTF-8, and characters
/// that XML cannot have, become U+FFFD.
std::string escaped(std::string_view text);

using Attributes = std::vector<std::pair<std::string_view, std::string>>;

/// An element with markup in it. Values of attributes are escaped, the content is taken as it is.
std::string element(std::string_view name, const Attributes& attributes,
                    std::string_view content = "");
/// An element with a text in it, which is escaped.
std::string text_element(std::string_view name, const Attributes& attributes,
                         std::string_view text);

/// A number as an attribute: three decimals at most.
std::string number(double value);
/// A share of the whole as an attribute: "12.5%".
std::string percent(double share);

}  // namespace troupe::launch
