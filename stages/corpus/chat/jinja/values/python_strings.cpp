#include "stages/corpus/chat/jinja/values/python_strings.h"

#include <algorithm>
#include <array>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

/// Bytes of the line end at the begin of a text; 0 if there is none.
std::size_t line_end_bytes(std::string_view text) {
  constexpr std::array<std::string_view, 11> kEnds{
      "\r\n", "\n",   "\r",       "\v",           "\f",          "\x1c",
      "\x1d", "\x1e", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
  const auto* const found =
      std::ranges::find_if(kEnds, [&](std::string_view end) { return text.starts_with(end); });
  return found == kEnds.end() ? 0 : found->size();
}

}  // namespace

bool is_python_space(char32_t character) {
  return is_white_space(character) || (character >= 0x1c && character <= 0x1f);
}

std::string stripped(std::string_view text, const std::string* set, Sides sides) {
  const auto is_stripped = [set](char32_t character) {
    return set ? set->find(utf8_of(character)) != std::string::npos : is_python_space(character);
  };
  if (sides != Sides::behind) text = without_front(text, is_stripped);
  if (sides != Sides::before) text = without_back(text, is_stripped);
  return std::string(text);
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator,
                                  std::int64_t most, bool from_behind) {
  std::vector<std::string> parts;
  const auto goes_on = [&] { return most < 0 || std::ssize(parts) < most; };
  while (goes_on()) {
    const std::size_t at = from_behind ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    const std::string_view before = text.substr(0, at), behind = text.substr(at + separator.size());
    parts.emplace_back(from_behind ? behind : before);
    text = from_behind ? before : behind;
  }
  parts.emplace_back(text);
  if (from_behind) std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> split_at_space(std::string_view text) {
  std::vector<std::string> parts;
  const auto is_no_space = [](char32_t character) { return !is_python_space(character); };
  for (text = without_front(text, is_python_space); !text.empty();
       text = without_front(text, is_python_space)) {
    const std::string_view rest = without_front(text, is_no_space);
    parts.emplace_back(text.substr(0, text.size() - rest.size()));
    text = rest;
  }
  return parts;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t bytes = line_end_bytes(text.substr(i)); bytes > 0) {
      lines.emplace_back(text.substr(0, i));
      text.remove_prefix(i + bytes);
      i = 0;
    } else {
      ++i;
    }
  }
  if (!text.empty()) lines.emplace_back(text);
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t most) {
  std::string out;
  const auto goes_on = [&] { return most != 0; };
  if (old.empty()) {  // before each character, and behind the last
    for (; goes_on() && !text.empty(); --most) {
      const std::size_t bytes = first_char_bytes(text);
      (out += by) += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
    if (goes_on()) out += by;
    return out.append(text);
  }
  for (std::size_t at; goes_on() && (at = text.find(old)) != text.npos; --most) {
    out.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + old.size());
  }
  return out.append(text);
}

std::int64_t count_of(std::string_view text, std::string_view part) {
  std::int64_t count = part.empty() ? 1 : 0;
  while (!text.empty()) {
    const std::size_t at = part.empty() ? 0 : text.find(part);
    if (at == text.npos) break;
    text.remove_prefix(at + (part.empty() ? first_char_bytes(text) : part.size()));
    ++count;
  }
  return count;
}

std::string in_case(std::string_view text, Case how) {
  std::string out(text);
  bool begins = true;  // the text, or a word
  for (char& c : out) {
    const bool is_letter = is_upper(c) || is_lower(c);
    const bool up = how == Case::upper || (how != Case::lower && begins);
    if (is_letter) c = static_cast<char>(up ? c & ~0x20 : c | 0x20);
    begins = how == Case::title && !is_letter;
  }
  return out;
}

}  // namespace troupe::stages
