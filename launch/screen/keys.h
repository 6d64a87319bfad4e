#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::launch {

/// A key that a person has pressed: a character, or one of these.
enum class KeyPress : int {
  tab = '\t',
  enter = '\r',
  escape = 0x1b,
  up = 256,
  down,
  left,
  right,
  back_tab,
  page_up,
  page_down,
  home,
  end,
};

/// Reads keys from the bytes that a terminal sends for them.
class KeyReader {
 public:
  /// The keys in these bytes and the rest of earlier ones. Sequences of keys that nobody needs are
  /// left out. An escape at the very end counts as the key of this name, because terminals send
  /// sequences in one piece.
  std::vector<KeyPress> take(std::string_view bytes);

 private:
  std::string rest_;  // the beginning of a sequence
};

}  // namespace troupe::launch
