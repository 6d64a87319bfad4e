#include "stages/corpus/text/json_elements.h"

#include <fmt/format.h>

#include <vector>

#include "stages/corpus/text/unpacked_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

constexpr std::size_t kBytesAtOnce = std::size_t{1} << 18;
constexpr std::string_view kSpace = " \t\r\n";

template <typename Use>
void for_each_part(const std::string& path, const Use& use) {
  UnpackedFile file(path);
  std::vector<char> buffer(kBytesAtOnce);
  for (std::size_t bytes = 0; (bytes = file.read(buffer)) > 0;)
    use(std::string_view(buffer.data(), bytes));
}

/// Divides a list of JSON at the commas between its elements, which are not parsed.
class ListReader {
 public:
  ListReader(const std::string& path, const UseElement& use) : path_(path), use_(use) {}

  void add(char c) {
    ++byte_;
    if (c == '\n') ++line_;
    if (is_string_) return add_to_string(c);
    const bool is_space = kSpace.find(c) != std::string_view::npos;
    if (element_.empty() && is_space) return;
    if (state_ == State::before) return begin(c);
    if (state_ == State::behind) fail("holds more behind its list");
    if (depth_ == 0 && (c == ',' || c == ']')) return end_element(c);
    if (element_.empty()) begin_ = {.text = {}, .line = line_, .byte = byte_ - 1};
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    is_string_ = c == '"';
    element_ += c;
  }

  void finish() const {
    if (state_ != State::behind) fail("ends before its list of JSON does");
  }

 private:
  enum class State { before, inside, behind };

  void begin(char c) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (kByteOrderMark.find(c) != std::string_view::npos) return;
    if (c != '[') fail("is no list of JSON");
    state_ = State::inside;
  }

  void add_to_string(char c) {
    element_ += c;
    is_string_ = is_escaped_ || c != '"';
    is_escaped_ = !is_escaped_ && c == '\\';
  }

  void end_element(char c) {
    const bool is_empty_list = c == ']' && count_ == 0 && element_.empty();
    if (element_.empty()) begin_ = {.text = {}, .line = line_, .byte = byte_ - 1};
    begin_.text = element_;
    if (!is_empty_list) use_(begin_);
    ++count_;
    element_.clear();
    if (c == ']') state_ = State::behind;
  }

  [[noreturn]] void fail(const char* why) const {
    throw Error(ErrorKind::data, fmt::format("{}:{}: {}", path_, line_, why));
  }

  const std::string& path_;
  const UseElement& use_;
  State state_ = State::before;
  std::string element_;
  JsonElement begin_;  ///< of the element
  std::int64_t line_ = 1, count_ = 0;
  std::uint64_t byte_ = 0;
  int depth_ = 0;
  bool is_string_ = false, is_escaped_ = false;
};

}  // namespace

void for_each_line(const std::string& path, const UseElement& use) {
  std::string line;
  JsonElement element;
  const auto end_line = [&] {
    element.text = line;
    if (line.find_first_not_of(kSpace) != line.npos) use(element);
    element.byte += line.size() + 1;
    ++element.line;
    line.clear();
  };
  for_each_part(path, [&](std::string_view part) {
    for (std::size_t end; (end = part.find('\n')) != part.npos; part.remove_prefix(end + 1)) {
      line += part.substr(0, end);
      end_line();
    }
    line += part;
  });
  end_line();
}

void for_each_element(const std::string& path, const UseElement& use) {
  ListReader reader(path, use);
  for_each_part(path, [&](std::string_view part) {
    for (const char c : part) reader.add(c);
  });
  reader.finish();
}

}  // namespace troupe::stages
