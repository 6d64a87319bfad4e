#pragma once

#include <array>
#include <caf/meta/load_callback.hpp>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "actors/messages/message_inspection.h"

namespace troupe::test {

/// Visits the numbers of a message as CAF does, and sets the one that is asked for.
class NumberSetter {
 public:
  using result_type = void;
  static constexpr bool reads_state = true;
  /// Sets the `target`-th number to its `extreme`-th extreme.
  NumberSetter(int target, int extreme) : target_(target), extreme_(extreme) {}
  bool found() const { return seen_ > target_; }

  template <typename... Fields>
  void operator()(Fields&&... fields) {
    (visit(fields), ...);
  }

 private:
  template <typename Field>
  void visit(Field& field) {
    if constexpr (std::is_same_v<Field, bool> || std::is_same_v<Field, std::string> ||
                  std::is_same_v<Field, const std::string>) {
    } else if constexpr (std::is_integral_v<Field>) {
      if (seen_++ == target_) field = extreme_of<Field>();
    } else if constexpr (std::is_enum_v<Field>) {
      auto number = static_cast<std::underlying_type_t<Field>>(field);
      visit(number);
      field = static_cast<Field>(number);
    } else {
      inspect(*this, field);
    }
  }
  template <typename T>
  void visit(std::vector<T>& all) {
    for (T& one : all) visit(one);
  }
  void visit(std::map<int, actors::Member>& all) {
    for (auto& [rank, member] : all) visit(member);
  }
  void visit(std::map<int, int>& all) {
    for (auto& [key, value] : all) visit(value);
  }
  template <typename Load>
  void visit(caf::meta::load_callback_t<Load>& callback) {
    callback.fun();
  }
  template <typename T>
  T extreme_of() const {
    using Limits = std::numeric_limits<T>;
    constexpr std::array<T, 5> kExtremes{Limits::min(), Limits::max(), static_cast<T>(-1),
                                         static_cast<T>(Limits::max() - 1),
                                         static_cast<T>(Limits::max() / 2 + 1)};
    return kExtremes[static_cast<std::size_t>(extreme_)];
  }

  const int target_, extreme_;
  int seen_ = 0;
};

/// Calls `use` with every message that has one number set to one of its extremes.
template <typename Message, typename Use>
void every_extreme(const Message& message, Use&& use) {
  for (int target = 0;; ++target)
    for (int extreme = 0; extreme < 5; ++extreme) {
      Message changed = message;
      NumberSetter setter(target, extreme);
      inspect(setter, changed);
      if (!setter.found()) return;
      use(changed);
    }
}

}  // namespace troupe::test
