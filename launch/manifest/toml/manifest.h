#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/manifest/keys/defaults.h"
#include "tensor/error.h"

namespace troupe::launch {

/// The name of the resolved manifest in a run directory.
inline constexpr const char* kManifestFile = "manifest.toml";

/// The settings of a run: every key of the manifest with its value and the place where it was set.
/// Keys are written "table.key". It is a broken invariant to ask for a key that is not in
/// manifest_keys() or for a type other than the key's kind.
class Manifest {
 public:
  /// Parses TOML. `name` stands for the file in messages. Each override is "table.key=value", whose
  /// value is TOML, or a bare text if the key holds a text. Throws Error{manifest}
  /// "file:line:column: ..." for a syntax error, an unknown table or key (with the nearest known
  /// one), a wrong type, or a value out of range. check() tests whether the values fit together.
  static Manifest parse(std::string_view text, const std::string& name,
                        std::span<const std::string> overrides);
  /// Parses a file. Relative input paths are resolved against the file's directory.
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
  const Mix& mix() const { return get<Mix>("data.mix"); }
  const EvalSets& eval_sets() const { return get<EvalSets>("eval.set"); }
  const Groups& groups() const { return get<Groups>("optimizer.group"); }
  const Value& value(std::string_view key) const { return setting(key).value; }

  /// Whether the user set the key, in the file or by an override; false for a key that run.derived
  /// names.
  bool given(std::string_view key) const {
    const Origin origin = setting(key).origin;
    return origin == Origin::file || origin == Origin::override_;
  }
  /// Whether the key has a value; false for a key that has yet to be derived from others.
  bool has(std::string_view key) const { return setting(key).present; }
  /// Gives a key its resolved value. The recorded place where it was set does not change.
  void resolve(std::string_view key, Value value);
  /// Gives a key that the user did not set its resolved value.
  void derive(std::string_view key, Value value) {
    if (!given(key)) resolve(key, std::move(value));
  }
  /// Says where a key was set that an option of the command line stands for: "--from Llama".
  void set_place(std::string_view key, std::string place);
  /// Gives a key a value that is no longer derived from others: from now on it counts as given.
  void settle(std::string_view key, Value value);

  /// A derived key whose value now differs from the one in the file.
  struct Rederived {
    std::string key;
    Value was, is;
  };
  /// The derived keys of a resolved manifest whose values now differ from those in the file it was
  /// read from. Paths are left out.
  std::vector<Rederived> rederived() const;

  /// Where a key was set: "file:line:column", "--set table.key=value", or only the file's name for
  /// a default.
  std::string where(std::string_view key) const;
  /// Throws Error{kind} with where(key) before the message.
  [[noreturn]] void fail(std::string_view key, const std::string& message,
                         ErrorKind kind = ErrorKind::manifest) const;
  /// A path that the key holds, with a leading ~ replaced by the home directory. Throws
  /// Error{manifest} for ~name, which is not supported.
  std::filesystem::path with_home(std::string_view key, const std::string& path) const;
  /// with_home() as an absolute path: relative to the manifest's directory, or to the current
  /// directory if an override set the key.
  std::string absolute(std::string_view key, const std::string& path) const;

  const std::string& name() const { return name_; }
  /// Which keys to print: all, or only those that the user set.
  enum class Keys { all, given };
  /// The resolved manifest as TOML. parse(to_toml()) gives the same settings, and run.derived tells
  /// the derived keys from those that the user set. A list that does not fit 100 columns gets one
  /// line for each item.
  std::string to_toml(Keys keys = Keys::all) const;

 private:
  enum class Origin { fallback, derived, file, override_ };
  struct Setting {
    Value value;
    bool present = false;
    Origin origin = Origin::fallback;
    std::string place;             ///< what where() returns
    std::optional<Value> written;  ///< value of a derived key in the file that was read
  };
  friend class ManifestParser;

  const Setting& setting(std::string_view key) const;
  /// Updates run.derived.
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

/// A value as TOML: strings quoted and escaped, numbers with all digits.
std::string to_toml(const Value& value);

}  // namespace troupe::launch
