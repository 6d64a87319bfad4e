#include "stages/corpus/text/broken_text.h"

#include <fmt/format.h>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {

void BrokenText::add(std::string_view bytes) {
  if (!is_valid_utf8(bytes)) {
    const Utf8Count count = count_utf8(bytes);
    if (parts_ == 0) first_ = read_ + count.first_invalid + 1;
    parts_ += count.invalid;
  }
  read_ += bytes.size();
}

std::string BrokenText::sentence(const std::string& path) const {
  if (parts_ == 0) return "";
  return parts_ == 1 ? fmt::format("{}: byte {} is no UTF-8 and counts as U+FFFD", path, first_)
                     : fmt::format(
                           "{}: {} places are no UTF-8 and count as U+FFFD each, the first at byte "
                           "{}",
                           path, parts_, first_);
}

}  // namespace troupe::stages
