#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Fills a Manifest from the defaults, a TOML text and overrides, in this order. Only
/// Manifest::parse uses it.
class ManifestParser {
 public:
  explicit ManifestParser(Manifest& manifest) : manifest_(manifest) {}

  void defaults();
  void file(std::string_view text);
  void override_with(const std::string& assignment);
  /// Marks the keys that run.derived names and no override set as derived, so that they are derived
  /// again. Until then their values are those of the file, for parse_resolved(), which takes a
  /// resolved text as it is.
  void mark_derived();

 private:
  void read_table(std::string_view table, const toml::table& nodes);
  void set(const Key& key, Value value, Manifest::Origin origin, const std::string& place);

  Manifest& manifest_;
};

}  // namespace troupe::launch
