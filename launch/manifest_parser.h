#pragma once

#include <string>
#include <string_view>

#include "launch/manifest.h"

namespace troupe::launch {

/// Fills a Manifest from the defaults, a TOML text and overrides, in this order. Used by
/// Manifest::parse alone.
class ManifestParser {
 public:
  explicit ManifestParser(Manifest& manifest) : manifest_(manifest) {}

  void defaults();
  void file(std::string_view text);
  void override_with(const std::string& assignment);

 private:
  void set(const Key& key, Value value, Manifest::Origin origin, const std::string& place);

  Manifest& manifest_;
};

/// "unknown key 'model.hiden_size'; did you mean 'model.hidden_size'?": the nearest known name,
/// first by the same name in another table, then by edit distance.
std::string unknown_key(std::string_view table, std::string_view name);
std::string unknown_table(std::string_view table);

}  // namespace troupe::launch
