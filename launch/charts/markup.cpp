#include "launch/charts/markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launch/charts/stacked_bar.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::launch {
namespace {

/// The elements that HTML never closes, which end with their tag; all others get an end tag, since
/// HTML does not know "<p/>".
constexpr std::array<std::string_view, 3> kVoid{"meta", "br", "link"};

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Whether XML 1.0 cannot have the character that `text` begins with: a control character, U+FFFE
/// or U+FFFF.
bool is_forbidden(std::string_view text) {
  const char c = text.front();
  if (text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF")) return true;
  return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
}

constexpr std::array<std::pair<char, std::string_view>, 4> kEntities{
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}}};

std::string_view entity_of(char c) {
  const auto found = std::ranges::find(kEntities, c, &decltype(kEntities)::value_type::first);
  return found == kEntities.end() ? "" : found->second;
}

}  // namespace

std::string escaped(std::string_view text) {
  const std::string valid = stages::valid_utf8(text);
  std::string out;
  for (std::string_view rest = valid; !rest.empty();) {
    const bool forbidden = is_forbidden(rest);
    const std::string_view entity = entity_of(rest.front());
    out += forbidden ? kReplacement : entity.empty() ? rest.substr(0, 1) : entity;
    rest.remove_prefix(forbidden && rest.front() == '\xEF' ? 3 : 1);
  }
  return out;
}

std::string element(std::string_view name, const Attributes& attributes, std::string_view content) {
  std::string out = fmt::format("<{}", name);
  for (const auto& [key, value] : attributes) out += fmt::format(" {}=\"{}\"", key, escaped(value));
  if (std::ranges::find(kVoid, name) != kVoid.end()) return out + "/>";
  return out + fmt::format(">{}</{}>", content, name);
}

std::string text_element(std::string_view name, const Attributes& attributes,
                         std::string_view text) {
  return element(name, attributes, escaped(text));
}

std::string number(double value) {
  std::string text = fmt::format("{:.3f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string percent(double share) {
  return number(100 * share) + "%";
}

std::string document(const Document& parts) {
  const std::string head =
      element("meta", {{"charset", "utf-8"}}) +
      element("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) +
      text_element("title", {}, parts.title) + element("style", {}, kStyle + parts.style);
  const std::string script = parts.script.empty() ? "" : element("script", {}, parts.script);
  return "<!DOCTYPE html>\n" +
         element(
             "html", {{"xmlns", "http://www.w3.org/1999/xhtml"}, {"lang", "en"}},
             element("head", {}, head) + "\n" +
                 element("body", {}, fill_patterns() + element("main", {}, parts.body) + script)) +
         "\n";
}

std::string section(const std::string& title, const std::string& content) {
  if (content.empty()) return "";
  return element("section", {}, text_element("h2", {}, title) + content) + "\n";
}

std::string code(const std::string& text) {
  return text_element("code", {}, text);
}

std::string paragraph(const std::string& text) {
  return text.empty() ? "" : text_element("p", {}, text);
}

std::string fact_list(const std::vector<Fact>& facts) {
  std::string items;
  for (const Fact& fact : facts)
    items +=
        element("div", {},
                text_element("dt", {}, fact.name) + text_element("dd", {}, fact.value) +
                    (fact.more.empty() ? "" : text_element("dd", {{"class", "more"}}, fact.more)));
  return element("dl", {{"class", "facts"}}, items);
}

std::string draw_table(const Table& table) {
  if (table.rows.empty()) return "";
  const auto look_of = [&](std::size_t column) {
    const bool number = std::ranges::find(table.numbers, column) != table.numbers.end();
    return std::string(number ? "number" : "");
  };
  std::string head, rows;
  for (std::size_t i = 0; i < table.head.size(); ++i)
    head += text_element("th", {{"scope", "col"}, {"class", look_of(i)}}, table.head[i]);
  for (const auto& row : table.rows) {
    std::string cells;
    for (std::size_t i = 0; i < row.size(); ++i)
      cells += element("td", {{"class", look_of(i)}, {"data-name", table.head[i]}}, row[i]);
    rows += element("tr", {}, cells) + "\n";
  }
  return element("table", {{"class", table.head.size() > 3 ? "wide" : ""}},
                 text_element("caption", {}, table.caption) +
                     element("thead", {}, element("tr", {}, head)) + element("tbody", {}, rows));
}

}  // namespace troupe::launch
