#pragma once

#include <string>
#include <vector>

#include "launch/host/machine.h"
#include "launch/manifest/checks/check.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/toml/manifest.h"
#include "tests/support/expect_error.h"

namespace troupe::test {

/// The smallest manifest that makes sense without a file behind it.
inline const std::string kSmallManifest = R"([run]
name = "small"
dir = "/runs/small"
max_steps = 12

[model]
hidden_size = 96
intermediate_size = 224
num_hidden_layers = 6
num_attention_heads = 6
num_key_value_heads = 2

[data]
files = ["/corpus/text.txt"]

[batch]
seq_len = 64
micro = 2
global = 16
)";

/// Eight cores and plenty of memory, wherever the test runs.
inline const launch::Machine kMachine{.free_cores = 8, .memory_bytes = std::int64_t{1} << 36};

/// Parses, resolves and checks a manifest, as a launch does before it reads any other file.
inline launch::Manifest checked(const std::string& text,
                                const std::vector<std::string>& overrides = {}) {
  launch::Manifest manifest = launch::Manifest::parse(text, "m.toml", overrides);
  launch::resolve(manifest, kMachine);
  launch::check(manifest);
  return manifest;
}

/// Checks that the small manifest with these overrides is refused with a message that has all
/// words.
inline void refused(const std::vector<std::string>& overrides,
                    const std::vector<std::string>& words, ErrorKind kind = ErrorKind::manifest) {
  expect_error(kind, words, [&] { checked(kSmallManifest, overrides); });
}

}  // namespace troupe::test
