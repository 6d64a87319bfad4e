#include "actors/topology/layers/layer_letters.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

constexpr std::string_view kLetters = "EtmL|";
/// The number of letters for 4096 layers in as many chunks, with E and L; no valid text has more.
constexpr std::size_t kMaxLetters = 2 * 4096 + 1;

/// Writes repetitions out. The grammar of an item of the text: x [*n] | ( x [*n] ... ) *n.
class Expansion {
 public:
  explicit Expansion(const std::string& text) : text_(text) {}

  std::string run() {
    std::string out;
    while (peek() != '\0') add(out, peek() == '(' ? group() : repeated());
    return out;
  }

 private:
  /// The next character that is no comma; 0 at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ',') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  [[noreturn]] void unexpected(const std::string& wanted) {
    const char c = peek();
    if (c == '\0') refuse(fmt::format("ends where {} must follow", wanted));
    const bool shown = c > ' ' && c < 0x7f;
    refuse(fmt::format("has {} at column {} where {} must be",
                       shown ? fmt::format("'{}'", c) : std::string("no letter"), at_ + 1, wanted));
  }

  std::string repeated() {
    const char letter = peek();
    if (letter == '\0' || kLetters.find(letter) == std::string_view::npos)
      unexpected("E (embedding), t (layer), L (head), | (next chunk) or ( (a group)");
    ++at_;
    return std::string(peek() == '*' ? count() : 1, letter);
  }

  std::string group() {
    ++at_;
    if (peek() == ')') unexpected("a letter of the group");
    std::string out;
    while (peek() != ')') {
      if (peek() == '(' || peek() == '\0') unexpected("a letter of the group or its )");
      add(out, repeated());
    }
    ++at_;
    if (peek() != '*') unexpected("the group's *n");
    const std::size_t times = count();
    std::string all;
    for (std::size_t i = 0; i < times; ++i) add(all, out);
    return all;
  }

  /// Reads the number after a *.
  std::size_t count() {
    ++at_;
    std::size_t number = 0, digits = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_, ++digits) {
      number = 10 * number + static_cast<std::size_t>(peek() - '0');
      if (number > kMaxLetters) too_long();
    }
    if (digits == 0) unexpected("a number");
    return number;
  }

  static void add(std::string& out, const std::string& more) {
    if (out.size() + more.size() > kMaxLetters) too_long();
    out += more;
  }
  [[noreturn]] static void too_long() {
    refuse(fmt::format("stands for more than {} letters; a model has at most 4096 layers",
                       kMaxLetters));
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

/// Refuses letters that do not hold `letter` exactly once, at `place`.
void check_once(const std::string& letters, char letter, std::size_t place, const std::string& rule,
                const std::vector<int>& layers) {
  const auto times = std::ranges::count(letters, letter);
  if (times == 1 && letters[place] == letter) return;
  const std::string wrong = times == 0   ? fmt::format("has no {}", letter)
                            : times == 1 ? fmt::format("has its {} elsewhere", letter)
                                         : fmt::format("has {} {} times", letter, times);
  refuse(fmt::format("{}: {}; such as {}", wrong, rule, to_letters(layers)));
}

}  // namespace

std::vector<int> parse_letters(const std::string& text) {
  const std::string letters = Expansion(text).run();
  std::vector<int> layers{0};
  for (const char letter : letters) {
    if (letter == '|') layers.push_back(0);
    if (letter == 't') ++layers.back();
  }
  if (letters.find('m') != std::string::npos)
    refuse(fmt::format("has an m, but models here have no multi-token prediction; such as {}",
                       to_letters(layers)));
  check_once(letters, 'E', 0, "the embedding comes first, in the first chunk", layers);
  check_once(letters, 'L', letters.size() - 1, "the head comes last, in the last chunk", layers);
  return layers;
}

std::string to_letters(const std::vector<int>& layers) {
  std::string out = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) out += '|';
    if (layers[i] > 0) out += layers[i] > 1 ? fmt::format("t*{}", layers[i]) : "t";
  }
  return out + "L";
}

}  // namespace troupe::actors
