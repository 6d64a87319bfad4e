#include "launch/charts/html.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "launch/charts/stacked_bar.h"

namespace troupe::launch {

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
