#include "launch/manifest/toml/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "launch/host/machine.h"
#include "stages/storage/input_file.h"

namespace troupe::launch {
namespace {

/// A TOML basic string, or a multi-line one if the text has line breaks. JSON's escapes are valid
/// in TOML.
std::string quoted(const std::string& text) {
  const bool lines = text.find('\n') != std::string::npos;
  std::string out = lines ? "\"\"\"\n" : "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + (lines ? "\"\"\"" : "\"");
}

std::string digits(double number) {
  std::string text = fmt::format("{}", number);
  // TOML recognizes a float by its point or exponent, or as inf or nan; any other number needs
  // ".0".
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

/// A table of a list as an inline table, without what has its default.
template <typename Row>
std::string row_text(const Row& row) {
  const Row fallback;
  std::vector<std::string> fields;
  for (const Key& key : row_keys<Row>())
    if (const Value value = key.get(&row); key.fallback.empty() || value != key.get(&fallback))
      fields.push_back(fmt::format("{} = {}", key.name, to_toml(value)));
  return fmt::format("{{ {} }}", fmt::join(fields, ", "));
}

struct Printer {
  bool by_line = false;  ///< a list gets a line for each item

  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(std::int64_t integer) const { return fmt::format("{}", integer); }
  std::string operator()(double number) const { return digits(number); }
  std::string operator()(const std::string& text) const { return quoted(text); }
  std::string operator()(const stages::ParameterGroup& row) const { return row_text(row); }
  std::string operator()(const Source& row) const { return row_text(row); }
  std::string operator()(const EvalSet& row) const { return row_text(row); }
  std::string operator()(const Settings::Stage& row) const { return row_text(row); }
  std::string operator()(const Names& names) const {
    std::vector<std::string> members;
    for (const auto& [name, text] : names)
      members.push_back(fmt::format("{} = {}", name, quoted(text)));
    return fmt::format("{{{}}}", fmt::join(members, ", "));
  }
  std::string operator()(const auto& list) const {
    std::vector<std::string> items;
    for (const auto& item : list) items.push_back((*this)(item));
    return by_line ? fmt::format("[\n  {},\n]", fmt::join(items, ",\n  "))
                   : fmt::format("[{}]", fmt::join(items, ", "));
  }
};

/// The line "name = value" with its line break. A list that would be too long for a screen gets one
/// line for each item.
std::string setting_line(std::string_view name, const Value& value) {
  constexpr std::size_t kMostColumns = 100;
  const std::string line = fmt::format("{} = {}\n", name, to_toml(value));
  if (line.size() <= kMostColumns + 1) return line;
  return fmt::format("{} = {}\n", name, std::visit(Printer{.by_line = true}, value));
}

}  // namespace

std::string to_toml(const Value& value) {
  return std::visit(Printer{}, value);
}

Manifest Manifest::read(const std::filesystem::path& path, std::span<const std::string> overrides) {
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorKind::manifest,
                fmt::format("{} is a directory; a manifest is a TOML file{}", path.string(),
                            std::filesystem::exists(path / kManifestFile, ignored)
                                ? fmt::format(", as {}", (path / kManifestFile).string())
                                : ""));
  if (!file)
    throw Error(ErrorKind::manifest,
                fmt::format("{}: {}", path.string(),
                            stages::why_unreadable(path, "no such manifest file")));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Manifest manifest = parse(text, path.string(), overrides);
  manifest.directory_ = path.parent_path();
  return manifest;
}

const Key& Manifest::key_at(const void* member) const {
  const auto found = std::ranges::find(
      manifest_keys(), member, [&](const Key& key) { return key.member.address(&settings_); });
  TROUPE_ASSERT(found != manifest_keys().end());
  return *found;
}

const Manifest::State& Manifest::state(const Key& key) const {
  return states_[static_cast<std::size_t>(&key - manifest_keys().data())];
}

bool Manifest::is_default(const Key& key) const {
  return launch::to_toml(value(key)) == key.fallback;
}

void Manifest::settle(const Key& key, Value value) {
  key.set(&settings_, std::move(value));
  state(key) = {.origin = Origin::file, .place = name_};
  set_present(key);
}

void Manifest::override_with(const Key& key, Value value, std::string option) {
  key.set(&settings_, std::move(value));
  state(key) = {.present = true, .origin = Origin::override_, .place = std::move(option)};
}

void Manifest::set_present(const Key& present) {
  state(present).present = true;
  settings_.derived.clear();
  for (const Key& key : manifest_keys())
    if (key.fallback.empty() && has(key) && !given(key))
      settings_.derived.push_back(key.full_name());
}

std::vector<Manifest::Rederived> Manifest::rederived() const {
  std::vector<Rederived> changed;
  for (const Key& key : manifest_keys()) {
    const auto& [present, origin, place, written] = state(key);
    if (key.kind() != Kind::text && written && present && value(key) != *written)
      changed.push_back({.key = key.full_name(), .was = *written, .is = value(key)});
  }
  return changed;
}

std::string Manifest::place_of(const Key& key) const {
  return state(key).origin == Origin::fallback ? name_ : state(key).place;
}

std::filesystem::path Manifest::with_home(const Key& key, const std::string& path) const {
  if (!path.starts_with('~')) return path;
  const std::size_t end = path.find('/');
  if (end != std::string::npos ? end != 1 : path.size() != 1)
    fail(
        key,
        "{} = {}: only ~ and ~/ stand for a home directory; write the whole path, or ./{} for that "
        "name itself",
        key.full_name(), quoted(path), path);
  const auto home = home_directory();
  if (!home)
    fail(key, "{} = {}: the home directory for ~ is not known; set HOME", key.full_name(),
         quoted(path));
  return end == std::string::npos ? *home : *home / path.substr(end + 1);
}

std::string Manifest::absolute(const Key& key, const std::string& path) const {
  const std::filesystem::path whole = with_home(key, path);
  const bool in_file = state(key).origin == Origin::file;
  return std::filesystem::absolute(in_file ? directory_ / whole : whole)
      .lexically_normal()
      .string();
}

std::string Manifest::to_toml(Keys keys) const {
  std::string out;
  std::string_view table;
  for (const Key& key : manifest_keys()) {
    if (keys == Keys::given && !given(key)) continue;
    if (key.is_rare && is_default(key)) continue;
    if (key.table != table) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", key.table);
    table = key.table;
    if (has(key)) out += setting_line(key.name, value(key));
  }
  return out;
}

}  // namespace troupe::launch
