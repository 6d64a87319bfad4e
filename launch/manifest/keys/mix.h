#pragma once

#include <string>
#include <vector>

namespace troupe::launch {

/// One table of [[data.mix]], a source of samples. mix_keys() says what its keys mean.
struct MixSource {
  std::string name;  ///< resolved: not empty
  std::vector<std::string> files;
  double weight = 1;
  std::string tokens, digest;  ///< written by launch, as data.tokens and data.digest
  bool operator==(const MixSource&) const = default;
};
using Mix = std::vector<MixSource>;

}  // namespace troupe::launch
