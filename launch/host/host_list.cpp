#include "launch/host/host_list.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <ranges>
#include <regex>
#include <utility>

#include "stages/storage/input_file.h"

namespace troupe::launch {
namespace {

/// More than any cluster has; a list of more is refused before it takes memory.
constexpr std::size_t kMostHosts = 1 << 16;
constexpr int kMostSlots = 4096;
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;  ///< of a hostfile

constexpr std::string_view kSpaces = " \t\r";
/// With which editors of Windows begin a text.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Where a word stands, for messages.
struct Place {
  std::string where;
  ErrorKind kind;
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(kind, where + ": " + message);
  }
};

bool is_host_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

/// The number that the whole text is; none if it is none, or has more than nine digits.
std::optional<int> number_in(std::string_view text) {
  int number = 0;
  if (text.size() > 9 || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// The entries between commas that are not in brackets.
std::vector<std::string_view> entries_of(std::string_view list, const Place& place) {
  std::vector<std::string_view> entries;
  std::size_t begin = 0;
  bool bracket = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == (bracket ? '[' : ']'))
      place.fail(fmt::format("'{}' has brackets that are not in pairs", list));
    if (list[i] == '[' || list[i] == ']') bracket = !bracket;
    if (list[i] != ',' || bracket) continue;
    entries.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  if (bracket) place.fail(fmt::format("'{}' has brackets that are not in pairs", list));
  entries.push_back(list.substr(begin));
  return entries;
}

/// The numbers of "01-03,7", with leading zeros.
std::vector<std::string> numbers_of(std::string_view ranges, std::string_view pattern,
                                    const Place& place) {
  std::vector<std::string> numbers;
  for (const std::string_view range : entries_of(ranges, place)) {
    const std::string_view low = range.substr(0, range.find('-'));
    const std::string_view high = low.size() < range.size() ? range.substr(low.size() + 1) : low;
    const auto first = number_in(low), last = number_in(high);
    if (!first || !last || *last < *first)
      place.fail(fmt::format("'{}': '{}' is no number or range of numbers, as 3 or 01-16", pattern,
                             range));
    if (numbers.size() + static_cast<std::size_t>(*last - *first) >= kMostHosts)
      place.fail(fmt::format("'{}' stands for more than {} hosts", pattern, kMostHosts));
    const std::size_t width = low.front() == '0' ? low.size() : 0;
    for (int n = *first; n <= *last; ++n) numbers.push_back(fmt::format("{:0{}}", n, width));
  }
  return numbers;
}

/// The names that a pattern as "n[01-16]-r[1-2]" stands for.
std::vector<std::string> names_of(std::string_view pattern, const Place& place) {
  std::vector<std::string> names{""};
  for (std::string_view rest = pattern; !rest.empty();) {
    const std::string_view letters = rest.substr(0, rest.find('['));
    if (const auto wrong = std::ranges::find_if_not(letters, is_host_letter);
        wrong != letters.end())
      place.fail(
          fmt::format("'{}' is no host name: it has '{}'; a name has letters, digits, '-', "
                      "'.', '_' and numbers in brackets as n[01-16], and an address of IPv6 "
                      "stands in brackets as [fe80::1]:2",
                      pattern, *wrong));
    for (std::string& name : names) name += letters;
    rest.remove_prefix(letters.size());
    if (rest.empty()) break;
    const std::size_t end = rest.find(']');
    const auto numbers = numbers_of(rest.substr(1, end - 1), pattern, place);
    if (names.size() * numbers.size() > kMostHosts)
      place.fail(fmt::format("'{}' stands for more than {} hosts", pattern, kMostHosts));
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const std::string& number : numbers) longer.push_back(name + number);
    names = std::move(longer);
    rest.remove_prefix(end + 1);
  }
  // A program that is given a name that begins with '-' takes it for an option.
  if (names.front().empty() || names.front().front() == '-')
    place.fail(fmt::format("'{}' is no host name: one begins with a letter or digit", pattern));
  return names;
}

/// The address of IPv6 in "[fe80::1]", maybe with the interface of a link.
std::string address_in(std::string_view bracketed, const Place& place) {
  const std::string name(bracketed.substr(1, bracketed.size() - 2));
  const std::string address = name.substr(0, name.find('%'));
  const std::string_view link = std::string_view(name).substr(address.size());
  in6_addr ignored{};
  if (address.find('\0') != std::string::npos)  // where inet_pton, and who reads an error, stop
    place.fail(fmt::format("a zero byte follows '{}' in brackets", address.c_str()));
  if (!bracketed.ends_with(']') || inet_pton(AF_INET6, address.c_str(), &ignored) != 1 ||
      link == "%" || !std::ranges::all_of(link.substr(link.empty() ? 0 : 1), is_host_letter))
    place.fail(fmt::format("'{}' is no address of IPv6 in brackets, as [fe80::1]:2", bracketed));
  return name;
}

int slots_in(std::string_view text, std::string_view host, const Place& place) {
  if (text.find(':') != std::string_view::npos)
    place.fail(
        fmt::format("'{}:{}': an address of IPv6 stands in brackets, as [fe80::1]:2", host, text));
  const auto slots = number_in(text);
  if (!slots || *slots < 1 || *slots > kMostSlots)
    place.fail(fmt::format("{}: '{}' is no number of slots, which is from 1 to {}", host, text,
                           kMostSlots));
  return *slots;
}

/// Collects hosts, and refuses one that it has already.
class HostList {
 public:
  /// Adds hosts as "n[01-16]:8,big:32". `slots` are those of a host that has none in the list.
  void add(std::string_view list, std::optional<int> slots, const Place& place) {
    for (const std::string_view entry : entries_of(list, place)) {
      const bool is_address = entry.starts_with('[') &&
                              entry.substr(0, entry.find(']')).find(':') != std::string_view::npos;
      const std::size_t bracket = entry.rfind(']');
      const std::size_t colon = entry.find(':', bracket == std::string_view::npos ? 0 : bracket);
      const std::string_view host = entry.substr(0, colon);
      auto names = is_address ? std::vector{address_in(host, place)} : names_of(host, place);
      std::optional<int> own;
      if (colon != std::string_view::npos) own = slots_in(entry.substr(colon + 1), host, place);
      if (own && slots) place.fail(fmt::format("{}: its slots stand here twice", host));
      for (std::string& name : names)
        add_host({.name = std::move(name), .slots = own.value_or(slots.value_or(1))}, place);
    }
  }

  std::vector<actors::Host> take(const Place& place) {
    if (hosts_.empty()) place.fail("there is no host; name at least one, as h0:2");
    return std::move(hosts_);
  }

 private:
  void add_host(actors::Host host, const Place& place) {
    const auto [found, is_new] = places_.try_emplace(host.name, place.where);
    if (!is_new)
      place.fail(fmt::format("host {} is named twice{}; give all its slots in one place", host.name,
                             found->second == place.where ? "" : ", first at " + found->second));
    if (hosts_.size() == kMostHosts) place.fail(fmt::format("more than {} hosts", kMostHosts));
    hosts_.push_back(std::move(host));
  }

  std::vector<actors::Host> hosts_;
  std::map<std::string, std::string> places_;  // of the hosts, by name
};

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// The line without its comment, and without spaces around '=', which MPI allows.
std::string plain(std::string_view line) {
  const std::string text(line.substr(0, line.find('#')));
  return std::regex_replace(text, std::regex("\\s*=\\s*"), "=");
}

/// Adds the host of a line, if it has one.
void add_line(HostList& hosts, std::string_view line, const Place& place) {
  const std::string text = plain(line);
  const auto words = split(text, kSpaces);
  if (words.empty()) return;
  std::optional<int> slots;
  for (const std::string_view word : words | std::views::drop(1)) {
    const std::string_view key = word.substr(0, word.find('='));
    const std::string_view value = word.substr(std::min(word.size(), key.size() + 1));
    const bool is_limit = key == "max_slots" || key == "max-slots";
    if (!is_limit && key != "slots")
      place.fail(fmt::format("{}: '{}' is unknown; a line is a host, as h0:2 or h0 slots=2",
                             words.front(), word));
    const int number = slots_in(value, words.front(), place);
    if (!is_limit && std::exchange(slots, number))
      place.fail(fmt::format("{}: its slots stand here twice", words.front()));
  }
  hosts.add(words.front(), slots, place);
}

}  // namespace

std::vector<actors::Host> parse_hosts(std::span<const std::string> lists, const std::string& where,
                                      ErrorKind kind) {
  const Place place{.where = where, .kind = kind};
  HostList hosts;
  for (const std::string& list : lists) hosts.add(list, std::nullopt, place);
  return hosts.take(place);
}

std::vector<actors::Host> parse_hostfile(std::string_view text, const std::string& name) {
  Place place{.where = name, .kind = ErrorKind::data};
  HostList hosts;
  int number = 0;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (const auto line : text | std::views::split('\n')) {
    place.where = fmt::format("{}:{}", name, ++number);
    add_line(hosts, {line.begin(), line.end()}, place);
  }
  place.where = name;
  return hosts.take(place);
}

std::vector<actors::Host> read_hostfile(const std::filesystem::path& file) {
  return parse_hostfile(stages::read_whole_file(file, kMostBytes), file.string());
}

}  // namespace troupe::launch
