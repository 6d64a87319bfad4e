#include "launch/screen/terminal_kind.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace troupe::launch {
namespace {

bool names_utf8(std::string locale) {
  std::ranges::transform(locale, locale.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

}  // namespace

TerminalKind terminal_kind(const std::function<const char*(const char*)>& variable) {
  const auto value = [&](const char* name) -> std::string {
    const char* found = variable(name);
    return found ? found : "";
  };
  const std::string term = value("TERM");
  TerminalKind kind{.moves = !term.empty() && term != "dumb"};
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const std::string locale = value(name); !locale.empty()) {
      kind.utf8 = names_utf8(locale) && term != "linux";  // the console's fonts lack most signs
      break;
    }
  if (!value("NO_COLOR").empty() || term.starts_with("vt")) return kind;
  const bool many = term.find("256color") != std::string::npos || !value("COLORTERM").empty();
  kind.colours = many ? Colours::many : Colours::eight;
  return kind;
}

}  // namespace troupe::launch
