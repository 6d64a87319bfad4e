#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::test {

/// What a terminal shows that was sent these bytes. It understands what the screen of troupe attach
/// uses, CUP, SGR and some modes, and fails the test at anything else, except for text of a shell
/// before the alternate screen.
class ScreenEmulator {
 public:
  ScreenEmulator(int width, int height) { resize(width, height); }

  /// A new size, at which a terminal keeps what it likes; here nothing is left.
  void resize(int width, int height) {
    width_ = width;
    rows_.assign(static_cast<std::size_t>(height),
                 std::vector<std::string>(static_cast<std::size_t>(width), " "));
  }

  void feed(std::string_view bytes) {
    rest_ += bytes;
    std::size_t at = 0;
    while (at < rest_.size()) {
      const std::size_t size = rest_[at] == '\x1b' ? escape_at(at) : character_at(at);
      if (size == 0) break;  // the rest has not come yet
      at += size;
    }
    rest_.erase(0, at);
  }

  /// A row without blanks at its end, as UTF-8.
  std::string row(int y) const {
    std::string text;
    for (const std::string& cell : rows_[static_cast<std::size_t>(y)]) text += cell;
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }
  std::string text() const {
    std::string all;
    for (std::size_t y = 0; y < rows_.size(); ++y) all += row(static_cast<int>(y)) + "\n";
    return all;
  }
  bool shows(const std::string& text) const { return this->text().find(text) != std::string::npos; }
  /// Whether the alternate screen is shown.
  bool is_alternate() const { return alternate_; }
  bool has_cursor() const { return cursor_; }
  /// The number of characters that were written since the last call.
  int num_written() { return std::exchange(written_, 0); }
  /// The parameters of SGR that came, each once.
  const std::vector<std::string>& attributes() const { return attributes_; }

 private:
  /// Obeys the escape sequence at `at` and returns its length; 0 if it is incomplete.
  std::size_t escape_at(std::size_t at) {
    if (at + 1 >= rest_.size()) return 0;
    BOOST_REQUIRE_MESSAGE(rest_[at + 1] == '[', "an unknown escape sequence");
    std::size_t end = at + 2;
    while (end < rest_.size() && (rest_[end] < '@' || rest_[end] > '~')) ++end;
    if (end >= rest_.size()) return 0;
    obey(rest_[end], rest_.substr(at + 2, end - at - 2));
    return end - at + 1;
  }

  void obey(char command, const std::string& parameters) {
    if (command == 'm') {
      if (std::ranges::find(attributes_, parameters) == attributes_.end())
        attributes_.push_back(parameters);
    } else if (command == 'H') {
      const std::size_t semicolon = parameters.find(';');
      y_ = std::stoi(parameters) - 1;
      x_ = std::stoi(parameters.substr(semicolon + 1)) - 1;
      BOOST_REQUIRE(y_ < std::ssize(rows_));
      BOOST_REQUIRE(x_ < width_);
    } else {
      const bool on = command == 'h';
      BOOST_REQUIRE_MESSAGE(on || command == 'l', "unknown: " << parameters << command);
      if (parameters == "?1049") alternate_ = on;
      if (parameters == "?25") cursor_ = on;
    }
  }

  /// Shows the character at `at` and returns its length; 0 if it is incomplete.
  std::size_t character_at(std::size_t at) {
    const auto first = static_cast<unsigned char>(rest_[at]);
    const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (at + size > rest_.size()) return 0;
    if (!alternate_) return size;
    BOOST_REQUIRE_MESSAGE(first >= ' ', "a control character " << static_cast<int>(first));
    BOOST_REQUIRE_MESSAGE(x_ < width_, "row " << y_ << " is too long");
    rows_[static_cast<std::size_t>(y_)][static_cast<std::size_t>(x_++)] = rest_.substr(at, size);
    ++written_;
    return size;
  }

  int width_ = 0;
  std::vector<std::vector<std::string>> rows_;
  std::string rest_;
  int x_ = 0, y_ = 0;
  int written_ = 0;
  bool alternate_ = false, cursor_ = true;
  std::vector<std::string> attributes_;
};

}  // namespace troupe::test
