#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "stages/corpus/chat/chat_template.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "tensor/errors/error.h"

// What the assistant says in the text of a conversation.

namespace troupe::stages {
namespace {

/// An answer that is in no text: two characters for private use.
constexpr const char* kOther = "\ue000\ue001";

/// Whether a byte is not the first of a character.
bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

/// Bytes that two texts begin with alike, in whole characters.
std::size_t common_begin(std::string_view one, std::string_view other) {
  auto same = static_cast<std::size_t>(std::ranges::mismatch(one, other).in1 - one.begin());
  while (same > 0 && (continues(one, same) || continues(other, same))) --same;
  return same;
}

/// Bytes that they end with alike.
std::size_t common_end(std::string_view one, std::string_view other) {
  std::size_t same = 0;
  const std::size_t most = std::min(one.size(), other.size());
  while (same < most && one[one.size() - same - 1] == other[other.size() - same - 1]) ++same;
  while (same > 0 && continues(one, one.size() - same)) --same;
  return same;
}

/// What differs from another text.
ByteRange difference(std::string_view text, std::string_view other) {
  const std::size_t begin = common_begin(text, other);
  return {.begin = begin, .end = text.size() - common_end(text.substr(begin), other.substr(begin))};
}

}  // namespace

/// Finds them by one way or another.
class ChatParts {
 public:
  ChatParts(const ChatTemplate& chat, ChatTemplate::Rendering whole)
      : chat_(chat), whole_(std::move(whole)) {}

  ChatText parts() {
    const std::vector<ByteRange> said = chat_.template_.marks_generated() ? marked() : found();
    ChatText text{.text = std::move(whole_.output.text), .ends = {}};
    for (const auto& [begin, end] : said) {
      if (end < begin || (!text.ends.empty() && begin < text.ends.back()))
        chat_.fail("what the assistant says cannot be told: it overlaps with other text");
      text.ends.push_back(begin);
      text.ends.push_back(end);
    }
    return text;
  }

 private:
  using Prompt = ChatTemplate::Prompt;

  std::vector<ByteRange> marked() const;
  std::vector<ByteRange> found() const;
  /// What an answer adds to the text of the messages before it; none if that, or it with them, is
  /// not the beginning of the whole.
  std::optional<ByteRange> added_by(std::size_t answer) const;
  /// Where an answer stands in the whole, by what changes with it.
  ByteRange aligned(std::size_t answer) const;
  std::string text_of_first(std::size_t count, Prompt prompt) const {
    return text_of(std::span(whole_.messages).first(count), prompt);
  }
  std::string text_of(std::span<const ChatMessage> messages, Prompt prompt) const {
    return chat_.render(messages, whole_.variables, prompt).text;
  }

  const ChatTemplate& chat_;
  ChatTemplate::Rendering whole_;
};

std::vector<ByteRange> ChatParts::marked() const {
  std::vector<ByteRange> said = whole_.output.generated;
  std::vector<bool> weights;
  for (const ChatMessage& message : whole_.messages)
    if (message.is_answer) weights.push_back(message.weighs);
  if (std::ranges::find(weights, false) == weights.end()) return said;
  if (said.size() != weights.size())
    chat_.fail(
        fmt::format("a message has \"weight\": 0, but what it says cannot be told: {} "
                    "messages of the assistant have {} parts marked as generated",
                    weights.size(), said.size()));
  std::vector<ByteRange> weighed;
  for (std::size_t i = 0; i < said.size(); ++i)
    if (weights[i]) weighed.push_back(said[i]);
  return weighed;
}

std::vector<ByteRange> ChatParts::found() const {
  std::vector<std::size_t> answers;
  for (std::size_t i = 0; i < whole_.messages.size(); ++i)
    if (whole_.messages[i].is_answer && whole_.messages[i].weighs) answers.push_back(i);
  std::vector<ByteRange> said;
  for (const std::size_t answer : answers) {
    const auto added = added_by(answer);
    if (!added) break;
    said.push_back(*added);
  }
  if (said.size() == answers.size()) return said;
  said.clear();
  for (const std::size_t answer : answers) said.push_back(aligned(answer));
  return said;
}

std::optional<ByteRange> ChatParts::added_by(std::size_t answer) const {
  const std::string& text = whole_.output.text;
  const std::string before = text_of_first(answer, Prompt::for_answer);
  if (!text.starts_with(before)) return std::nullopt;
  const std::string with = text_of_first(answer + 1, Prompt::none);
  if (!text.starts_with(with)) return std::nullopt;
  return ByteRange{.begin = before.size(), .end = with.size()};
}

ByteRange ChatParts::aligned(std::size_t answer) const {
  const std::string_view text = whole_.output.text;
  std::vector<ChatMessage> others = whole_.messages;
  others[answer].value = JinjaValue::object({{"role", "assistant"}, {"content", kOther}});
  ByteRange place = difference(text, text_of(others, Prompt::none));
  if (place.begin >= place.end)
    chat_.fail(
        fmt::format("what the assistant says cannot be told: the text does not show the "
                    "content of message {}",
                    answer + 1));
  // Where it is the last message, its text is all that stands behind the prompt for an answer.
  const std::string last = text_of_first(answer + 1, Prompt::none);
  const ByteRange own =
      difference(last, text_of(std::span(others).first(answer + 1), Prompt::none));
  place.end += common_begin(text.substr(place.end), std::string_view(last).substr(own.end));
  if (answer == 0 || !last.starts_with(text_of_first(answer, Prompt::none))) return place;
  const std::size_t begin = common_begin(last, text_of_first(answer, Prompt::for_answer));
  if (begin <= own.begin) {
    const auto lead = std::string_view(last).substr(begin, own.begin - begin);
    if (text.substr(0, place.begin).ends_with(lead)) place.begin -= lead.size();
  } else {
    const auto prompted = std::string_view(last).substr(own.begin, begin - own.begin);
    place.begin += common_begin(text.substr(place.begin), prompted);
  }
  return place;
}

ChatText ChatTemplate::parts_of(const Conversation& conversation) const {
  return ChatParts(*this, render(conversation, Prompt::none)).parts();
}

}  // namespace troupe::stages
