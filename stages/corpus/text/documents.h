#pragma once

#include <array>
#include <string_view>

namespace troupe::stages {

/// How the texts of a corpus become samples, and the samples rows of a microbatch.
enum class Documents {
  joined,  ///< all texts are one stream of tokens, which is cut every seq_len
  padded,  ///< a sample is a document, or a piece of one, in a row of seq_len that padding fills up
  packed,  ///< such samples lie side by side, and nothing is filled up
};
/// Their names in a manifest, by value.
inline constexpr std::array<std::string_view, 3> kDocumentsNames{"joined", "padded", "packed"};
inline std::string_view name_of(Documents documents) {
  return kDocumentsNames[static_cast<std::size_t>(documents)];
}

/// Which tokens of a document are targets.
enum class LossOn {
  all,       ///< each but the first
  response,  ///< of these, those that follow the document's prompt
};
/// Their names in a manifest, by value.
inline constexpr std::array<std::string_view, 2> kLossOnNames{"all", "response"};
inline std::string_view name_of(LossOn loss_on) {
  return kLossOnNames[static_cast<std::size_t>(loss_on)];
}

}  // namespace troupe::stages
