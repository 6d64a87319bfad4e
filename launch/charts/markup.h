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

// The parts that pages are made of.

/// The content of style.css when the program was built.
extern const char* const kStyle;

struct Document {
  std::string title;
  std::string body;
  std::string style = {};   ///< beside style.css
  std::string script = {};  ///< run when the body is there
};
/// A whole file with style and script in it, which needs no other one.
std::string document(const Document& parts);

/// A part of a page under a heading; empty if its content is.
std::string section(const std::string& title, const std::string& content);
/// A paragraph; empty if the text is.
std::string paragraph(const std::string& text);

/// A text that a reader might type or find in a file.
std::string code(const std::string& text);

/// A figure that a reader looks for first, and what stands below it.
struct Fact {
  std::string name;
  std::string value;
  std::string more = {};
};
std::string fact_list(const std::vector<Fact>& facts);

/// A table. Cells are markup; columns named in `numbers`, from 0, are aligned to the right.
struct Table {
  std::string caption;  ///< for those who do not see the heading above
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows = {};
  std::vector<std::size_t> numbers = {};
};
/// Empty if there are no rows. Each cell carries its column's name, for screens that are too narrow
/// for more than three columns.
std::string draw_table(const Table& table);

}  // namespace troupe::launch
