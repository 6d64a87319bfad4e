#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "launch/manifest/manifest.h"

namespace troupe::launch {

/// Fills a Manifest from the defaults, a TOML text and overrides, in this order. Used by
/// Manifest::parse alone.
class ManifestParser {
 public:
  explicit ManifestParser(Manifest& manifest) : manifest_(manifest) {}

  void defaults();
  void file(std::string_view text);
  void override_with(const std::string& assignment);
  /// What run.derived names, and no override set, has no value until it is derived again. Its old
  /// value stays for whoever reads a resolved text as it is.
  void mark_derived();

 private:
  void read_table(std::string_view table, const toml::table& nodes);
  void set(const Key& key, Value value, Manifest::Origin origin, const std::string& place);

  Manifest& manifest_;
};

}  // namespace troupe::launch
