#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::launch {

/// One table of [[eval.set]], text to evaluate on. set_keys() says what its keys mean.
struct EvalSet {
  std::string name;  ///< resolved: not empty
  std::vector<std::string> files;
  std::string tokens, digest;  ///< written by launch, as eval.tokens and eval.digest
  std::int64_t samples = 0;    ///< written by launch, as eval.samples
  bool operator==(const EvalSet&) const = default;
};
using EvalSets = std::vector<EvalSet>;

}  // namespace troupe::launch
