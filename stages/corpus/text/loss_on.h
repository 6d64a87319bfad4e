#pragma once

#include <array>
#include <string_view>

namespace troupe::stages {

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
