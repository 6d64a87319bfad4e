#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/manifest/defaults.h"
#include "tensor/error.h"

namespace troupe::launch {

/// The resolved manifest in a run's directory.
inline constexpr const char* kManifestFile = "manifest.toml";

/// The settings of a run: every key of the manifest with its value and the place where it was set.
/// Keys are written "table.key". Asking for a key that is not in manifest_keys(), or for another
/// type than its kind, is a broken invariant.
class Manifest {
 public:
  /// Parses TOML. `name` stands for the file in messages. Each override is "table.key=value", value
  /// being TOML, or a bare text where the key holds one. Throws Error{manifest} "file:line:column:
  /// ..." for a syntax error, an unknown table or key (with the nearest known one), a wrong type, a
  /// value out of range; says nothing of values that do not fit together.
  static Manifest parse(std::string_view text, const std::string& name,
                        std::span<const std::string> overrides);
  /// Parses a file. Relative input paths are meant from the file's directory.
  static Manifest read(const std::filesystem::path& path, std::span<const std::string> overrides);

  bool flag(std::string_view key) const { return get<bool>(key); }
  std::int64_t integer(std::string_view key) const { return get<std::int64_t>(key); }
  double number(std::string_view key) const { return get<double>(key); }
  const std::string& text(std::string_view key) const { return get<std::string>(key); }
  const std::vector<std::string>& texts(std::string_view key) const {
    return get<std::vector<std::string>>(key);
  }
  const std::vector<double>& pair(std::string_view key) const {
    return get<std::vector<double>>(key);
  }
  const Value& value(std::string_view key) const { return setting(key).value; }

  /// Whether the user set the key, in the file or by an override; false for what run.derived names.
  bool given(std::string_view key) const {
    const Origin origin = setting(key).origin;
    return origin == Origin::file || origin == Origin::override_;
  }
  /// Whether the key has a value: false for one that is to be derived from others.
  bool has(std::string_view key) const { return setting(key).present; }
  /// Gives a key its resolved value; where it was set stays as it is.
  void resolve(std::string_view key, Value value);
  /// Gives a key a value that no longer follows from others: from now on it counts as given.
  void settle(std::string_view key, Value value);

  /// A derived key whose value is not the one that the file was written with.
  struct Rederived {
    std::string key;
    Value was, is;
  };
  /// The derived keys of a resolved manifest, read from a file, that have other values now. Paths
  /// are left out.
  std::vector<Rederived> rederived() const;

  /// "file:line:column", "--set table.key=value", or the file alone for a default.
  std::string where(std::string_view key) const;
  /// Throws Error{kind} with where(key) before the message.
  [[noreturn]] void fail(std::string_view key, const std::string& message,
                         ErrorKind kind = ErrorKind::manifest) const;
  /// A path that the key holds, with the home directory for a ~ at its begin. Throws
  /// Error{manifest} for ~name, which no key understands.
  std::filesystem::path with_home(std::string_view key, const std::string& path) const;
  /// The same, absolute: from the manifest's directory, or from the current one for an override.
  std::string absolute(std::string_view key, const std::string& path) const;

  const std::string& name() const { return name_; }
  /// All keys, or those that the user set.
  enum class Keys { all, given };
  /// The resolved manifest as TOML: parse(to_toml()) gives the same settings, and run.derived tells
  /// those that the user set from those that were derived. Lists go over several lines where one
  /// would be longer than 100 columns.
  std::string to_toml(Keys keys = Keys::all) const;

 private:
  enum class Origin { fallback, derived, file, override_ };
  struct Setting {
    Value value;
    bool present = false;
    Origin origin = Origin::fallback;
    std::string place;             ///< as where() gives it
    std::optional<Value> written;  ///< of a derived key: what the file said
  };
  friend class ManifestParser;

  const Setting& setting(std::string_view key) const;
  /// Brings run.derived up to date.
  void list_derived();
  template <typename T>
  const T& get(std::string_view key) const {
    const Setting& found = setting(key);
    TROUPE_ASSERT(found.present && std::holds_alternative<T>(found.value));
    return std::get<T>(found.value);
  }

  std::string name_;
  std::filesystem::path directory_ = ".";
  std::map<std::string, Setting, std::less<>> settings_;
};

/// A value as TOML: strings quoted and escaped, numbers with all their digits.
std::string to_toml(const Value& value);

}  // namespace troupe::launch
