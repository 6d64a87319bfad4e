#include "launch/manifest/toml/manifest.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "launch/host/machine.h"
#include "launch/manifest/toml/manifest_parser.h"
#include "stages/storage/input_file.h"

namespace troupe::launch {
namespace {

std::string dotted(const Key& key) {
  return fmt::format("{}.{}", key.table, key.name);
}

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

template <typename T, typename F>
std::string listed(const std::vector<T>& items, const F& print) {
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ", ") + print(item);
  return "[" + out + "]";
}

/// A source as an inline table.
std::string source_text(const MixSource& source) {
  std::string out = fmt::format("{{ name = {}, files = {}, weight = {}", quoted(source.name),
                                listed(source.files, quoted), digits(source.weight));
  if (!source.tokens.empty()) out += fmt::format(", tokens = {}", quoted(source.tokens));
  if (!source.digest.empty()) out += fmt::format(", digest = {}", quoted(source.digest));
  return out + " }";
}

/// A set as an inline table.
std::string set_text(const EvalSet& set) {
  std::string out =
      fmt::format("{{ name = {}, files = {}", quoted(set.name), listed(set.files, quoted));
  if (!set.tokens.empty()) out += fmt::format(", tokens = {}", quoted(set.tokens));
  if (!set.digest.empty()) out += fmt::format(", digest = {}", quoted(set.digest));
  if (set.samples > 0) out += fmt::format(", samples = {}", set.samples);
  return out + " }";
}

/// A group as an inline table, without what is the default.
std::string group_text(const stages::ParameterGroup& group) {
  std::string out = fmt::format("{{ match = {}", quoted(group.match));
  const auto& [lr_scale, weight_decay, frozen] = group.update;
  if (lr_scale != 1) out += fmt::format(", lr_scale = {}", digits(lr_scale));
  if (weight_decay) out += fmt::format(", weight_decay = {}", digits(*weight_decay));
  if (frozen) out += ", frozen = true";
  return out + " }";
}

struct Printer {
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(std::int64_t integer) const { return fmt::format("{}", integer); }
  std::string operator()(double number) const { return digits(number); }
  std::string operator()(const std::string& text) const { return quoted(text); }
  std::string operator()(const std::vector<std::string>& texts) const {
    return listed(texts, quoted);
  }
  std::string operator()(const std::vector<double>& numbers) const {
    return listed(numbers, digits);
  }
  std::string operator()(const Mix& mix) const { return listed(mix, source_text); }
  std::string operator()(const EvalSets& sets) const { return listed(sets, set_text); }
  std::string operator()(const Groups& groups) const { return listed(groups, group_text); }
};

/// The items of a list as TOML; none of what is no list, or one of numbers, which is short.
std::vector<std::string> items_of(const Value& value) {
  std::vector<std::string> items;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& text : *texts) items.push_back(quoted(text));
  if (const auto* mix = std::get_if<Mix>(&value))
    for (const MixSource& source : *mix) items.push_back(source_text(source));
  if (const auto* sets = std::get_if<EvalSets>(&value))
    for (const EvalSet& set : *sets) items.push_back(set_text(set));
  if (const auto* groups = std::get_if<Groups>(&value))
    for (const stages::ParameterGroup& group : *groups) items.push_back(group_text(group));
  return items;
}

/// The line "name = value" with its line break. A list that would be too long for a screen gets one
/// line for each item.
std::string setting_line(std::string_view name, const Value& value) {
  constexpr std::size_t kMostColumns = 100;
  const std::string line = fmt::format("{} = {}\n", name, to_toml(value));
  const auto items = items_of(value);
  if (items.empty() || line.size() <= kMostColumns + 1) return line;
  std::string lines;
  for (const std::string& item : items) lines += fmt::format("  {},\n", item);
  return fmt::format("{} = [\n{}]\n", name, lines);
}

}  // namespace

std::string to_toml(const Value& value) {
  return std::visit(Printer{}, value);
}

Manifest Manifest::parse(std::string_view text, const std::string& name,
                         std::span<const std::string> overrides) {
  Manifest manifest;
  manifest.name_ = name;
  ManifestParser parser(manifest);
  parser.defaults();
  parser.file(text);
  for (const std::string& override_ : overrides) parser.override_with(override_);
  parser.mark_derived();
  return manifest;
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

const Manifest::Setting& Manifest::setting(std::string_view key) const {
  const auto found = settings_.find(key);
  TROUPE_ASSERT(found != settings_.end());
  return found->second;
}

void Manifest::resolve(std::string_view key, Value value) {
  const auto found = settings_.find(key);
  TROUPE_ASSERT(found != settings_.end());
  found->second.value = std::move(value);
  found->second.present = true;
  list_derived();
}

void Manifest::settle(std::string_view key, Value value) {
  const auto found = settings_.find(key);
  TROUPE_ASSERT(found != settings_.end());
  found->second = {
      .value = std::move(value), .present = true, .origin = Origin::file, .place = name_};
  list_derived();
}

void Manifest::set_place(std::string_view key, std::string place) {
  const auto found = settings_.find(key);
  TROUPE_ASSERT(found != settings_.end());
  found->second.place = std::move(place);
}

void Manifest::list_derived() {
  std::vector<std::string> derived;
  for (const Key& key : manifest_keys())
    if (key.fallback.empty() && has(dotted(key)) && !given(dotted(key)))
      derived.push_back(dotted(key));
  settings_.find("run.derived")->second.value = derived;
}

std::vector<Manifest::Rederived> Manifest::rederived() const {
  std::vector<Rederived> changed;
  for (const Key& key : manifest_keys()) {
    const Setting& found = setting(dotted(key));
    if (key.kind != Kind::text && found.written && found.present && found.value != *found.written)
      changed.push_back({.key = dotted(key), .was = *found.written, .is = found.value});
  }
  return changed;
}

std::string Manifest::where(std::string_view key) const {
  const Setting& found = setting(key);
  return found.origin == Origin::fallback ? name_ : found.place;
}

void Manifest::fail(std::string_view key, const std::string& message, ErrorKind kind) const {
  throw Error(kind, fmt::format("{}: {}", where(key), message));
}

std::filesystem::path Manifest::with_home(std::string_view key, const std::string& path) const {
  if (!path.starts_with('~')) return path;
  const std::size_t end = path.find('/');
  if (end != std::string::npos ? end != 1 : path.size() != 1)
    fail(key,
         fmt::format("{} = {}: only ~ and ~/ stand for a home directory; write the whole path, "
                     "or ./{} for that name itself",
                     key, quoted(path), path));
  const auto home = home_directory();
  if (!home)
    fail(key, fmt::format("{} = {}: the home directory for ~ is not known; set HOME", key,
                          quoted(path)));
  return end == std::string::npos ? *home : *home / path.substr(end + 1);
}

std::string Manifest::absolute(std::string_view key, const std::string& path) const {
  const std::filesystem::path whole = with_home(key, path);
  const bool in_file = setting(key).origin == Origin::file;
  return std::filesystem::absolute(in_file ? directory_ / whole : whole)
      .lexically_normal()
      .string();
}

std::string Manifest::to_toml(Keys keys) const {
  std::string out;
  std::string_view table;
  for (const Key& key : manifest_keys()) {
    if (keys == Keys::given && !given(dotted(key))) continue;
    if (key.table != table) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", key.table);
    table = key.table;
    const Setting& found = setting(dotted(key));
    if (found.present) out += setting_line(key.name, found.value);
  }
  return out;
}

}  // namespace troupe::launch
