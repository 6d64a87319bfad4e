#include "stages/corpus/text/json_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/storage/json_reason.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::ordered_json;

/// The code unit of an escape \uXXXX at a place; none if there is no such escape.
int escaped_unit(std::string_view text, std::size_t at) {
  unsigned unit = 0;
  if (text.substr(at, 2) != "\\u" || at + 6 > text.size()) return -1;
  const char* end = text.data() + at + 6;
  return std::from_chars(text.data() + at + 2, end, unit, 16).ptr == end ? static_cast<int>(unit)
                                                                         : -1;
}

bool is_high(int unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low(int unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

/// Rewrites what Python writes beyond JSON, each by as many bytes, so that columns stay as they
/// are.
class Repair {
 public:
  explicit Repair(std::string_view line) : line_(line) {}

  std::string line() && {
    while (at_ < line_.size()) line_[at_] == '"' ? copy_string() : copy_other();
    return std::move(out_);
  }

 private:
  void copy(std::size_t bytes) {
    out_ += line_.substr(at_, bytes);
    at_ = std::min(at_ + bytes, line_.size());
  }

  void copy_string() {
    copy(1);
    while (at_ < line_.size() && line_[at_] != '"') {
      const int unit = escaped_unit(line_, at_);
      if (is_high(unit) && is_low(escaped_unit(line_, at_ + 6))) {
        copy(12);
      } else if (is_high(unit) || is_low(unit)) {
        out_ += "\\ufffd";
        at_ += 6;
      } else {
        copy(line_[at_] == '\\' ? 2 : 1);
      }
    }
    copy(1);
  }

  void copy_other() {
    for (const std::string_view name : {"NaN", "Infinity", "-Infinity"})
      if (line_.substr(at_).starts_with(name)) return put_zero(name.size());
    constexpr std::string_view kNumber = "+-.0123456789eE";
    if (line_[at_] != '-' && (line_[at_] < '0' || line_[at_] > '9')) return copy(1);
    const std::size_t end = std::min(line_.find_first_not_of(kNumber, at_), line_.size());
    double number = 0;
    const auto [stop, error] = std::from_chars(line_.data() + at_, line_.data() + end, number);
    if (error == std::errc::result_out_of_range && stop == line_.data() + end)
      put_zero(end - at_);
    else
      copy(end - at_);
  }
  void put_zero(std::size_t bytes) {
    out_ += '0';
    out_.append(bytes - 1, ' ');
    at_ += bytes;
  }

  std::string_view line_;
  std::size_t at_ = 0;
  std::string out_;
};

/// What the parser says; the line is always its first.
std::string reason_of(const ordered_json::exception& error) {
  const std::string reason = json_reason(error);
  const auto column = reason.find("column ");
  return reason.starts_with("line 1, ") ? reason.substr(column) : reason;
}

/// Whether `parse` reads a text to its end, or where it is cut off.
template <typename Parse>
bool reads(std::string_view given, bool is_cut, const Parse& parse) {
  const std::string valid = valid_utf8(given);
  const std::string text = Repair(valid).line();
  try {
    parse(text);
    return true;
  } catch (const ordered_json::parse_error& error) {
    return is_cut && error.byte > text.size();
  } catch (const ordered_json::exception&) {
    return false;
  }
}

}  // namespace

bool is_json(std::string_view text, bool is_cut) {
  return reads(text, is_cut, [](const std::string& json_text) {
    const ordered_json parsed = ordered_json::parse(json_text);
  });
}

bool begins_with_json(std::string_view text, bool is_cut) {
  return reads(text, is_cut, [](const std::string& json_text) {
    std::istringstream stream(json_text);
    ordered_json first;
    stream >> first;
  });
}

ordered_json parse_json_line(std::string_view given) {
  const std::string line = valid_utf8(given);
  ordered_json parsed = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_discarded()) return parsed;
  try {
    return ordered_json::parse(Repair(line).line());
  } catch (const ordered_json::exception& error) {
    throw Error(ErrorKind::data, fmt::format("no JSON: {}", reason_of(error)));
  }
}

}  // namespace troupe::stages
