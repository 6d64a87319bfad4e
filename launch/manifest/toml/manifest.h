#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "launch/manifest/keys/key.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

/// The name of the resolved manifest in a run directory.
inline constexpr const char* kManifestFile = "manifest.toml";

/// The settings of a run: what every key of the manifest sets, and the place where it was set. A
/// key is given as itself or as the member of *this that it sets, as in given(manifest->mesh.pp);
/// any other object is a broken invariant.
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

  const Settings& operator*() const { return settings_; }
  const Settings* operator->() const { return &settings_; }
  /// A member that is set so belongs to a key with a default; resolve() is for all others.
  Settings* operator->() { return &settings_; }

  /// The key that sets this member.
  template <typename T>
  const Key& key_of(const T& member) const {
    static_assert(!std::is_array_v<T> && !std::is_pointer_v<T>, "not a name: the member itself");
    return key_at(&member);
  }
  const Key& key_of(const Key& key) const { return key; }
  const Key& key_at(const void* member) const;  ///< the same, by its address
  Value value(const Key& key) const { return key.get(&settings_); }
  /// The value of a text or a choice, as the manifest has it.
  std::string text(const auto& key) const { return std::get<std::string>(value(key_of(key))); }
  /// Whether the key has its default.
  bool is_default(const Key& key) const;

  /// Whether the user set the key, in the file or by an override; false for a key that run.derived
  /// names.
  bool given(const auto& key) const {
    const Origin origin = state(key_of(key)).origin;
    return origin == Origin::file || origin == Origin::override_;
  }
  /// Whether the key has a value; false for a key that has yet to be derived from others.
  bool has(const auto& key) const { return state(key_of(key)).present; }
  /// Gives a key its resolved value. The recorded place where it was set does not change.
  template <typename T>
  void resolve(T& member, std::type_identity_t<T> value) {
    member = std::move(value);
    set_present(key_at(&member));
  }
  /// Gives a key that the user did not set its resolved value.
  template <typename T>
  void derive(T& member, std::type_identity_t<T> value) {
    if (!given(member)) resolve(member, std::move(value));
  }
  /// Gives a key a value that is no longer derived from others: from now on it counts as given.
  void settle(const Key& key, Value value);
  /// Sets a key as an override does, for an option of the command line that is its place: "--from
  /// Llama".
  void override_with(const Key& key, Value value, std::string option);

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
  std::string where(const auto& key) const { return place_of(key_of(key)); }
  /// Throws Error{manifest} with where(key) before the message.
  template <typename... Args>
  [[noreturn]] void fail(const auto& key, fmt::format_string<Args...> message,
                         Args&&... args) const {
    fail_as(ErrorKind::manifest, key, message, std::forward<Args>(args)...);
  }
  /// Throws Error{kind} with where(key) before the message.
  template <typename... Args>
  [[noreturn]] void fail_as(ErrorKind kind, const auto& key, fmt::format_string<Args...> message,
                            Args&&... args) const {
    throw Error(kind, where(key) + ": " + fmt::format(message, std::forward<Args>(args)...));
  }
  /// What `body` returns. Its errors get the place of the key.
  auto about(const auto& key, const auto& body) const try {
    return body();
  } catch (const Error& error) {
    fail_as(error.kind(), key, "{}", error.what());
  }
  /// A path that the key holds, with a leading ~ replaced by the home directory. Throws
  /// Error{manifest} for ~name, which is not supported.
  std::filesystem::path with_home(const Key& key, const std::string& path) const;
  /// with_home() as an absolute path: relative to the manifest's directory, or to the current
  /// directory if an override set the key.
  std::string absolute(const Key& key, const std::string& path) const;

  const std::string& name() const { return name_; }
  /// Which keys to print: all, or only those that the user set.
  enum class Keys { all, given };
  /// The resolved manifest as TOML. parse(to_toml()) gives the same settings, and run.derived tells
  /// the derived keys from those that the user set. Rare keys with their default are left out. A
  /// list that does not fit 100 columns gets one line for each item.
  std::string to_toml(Keys keys = Keys::all) const;

 private:
  enum class Origin { fallback, derived, file, override_ };
  struct State {
    bool present = false;
    Origin origin = Origin::fallback;
    std::string place{};             ///< what where() returns
    std::optional<Value> written{};  ///< value of a derived key in the file that was read
  };
  friend class ManifestParser;

  const State& state(const Key& key) const;
  State& state(const Key& key) { return const_cast<State&>(std::as_const(*this).state(key)); }
  std::string place_of(const Key& key) const;
  /// Updates run.derived too.
  void set_present(const Key& key);

  std::string name_;
  std::filesystem::path directory_ = ".";
  Settings settings_;
  std::vector<State> states_ = std::vector<State>(manifest_keys().size());  ///< in their order
};

/// A value as TOML: strings quoted and escaped, numbers with all digits.
std::string to_toml(const Value& value);

}  // namespace troupe::launch
