#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "launch/manifest/keys/settings.h"

namespace troupe::launch {

/// The tables of the lists [[data.mix]], [[eval.set]], [[optimizer.group]] and [[stage]].
using Source = actors::RunSpec::Data::Source;
using EvalSet = actors::RunSpec::Eval::Set;
using Mix = std::vector<Source>;
using EvalSets = std::vector<EvalSet>;
using Groups = std::vector<stages::ParameterGroup>;
using Stages = std::vector<Settings::Stage>;
/// Texts by name, as {prompt = "question"}.
using Names = std::map<std::string, std::string>;

/// The value of a key.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>,
                           std::array<double, 2>, Mix, EvalSets, Groups, Stages, Names>;
/// Its type, in the same order. An integer is accepted as a number, and one text as a list of
/// texts; a pair is a list of two numbers, mix, sets, groups and stages are lists of tables.
enum class Kind { boolean, integer, number, text, texts, pair, mix, sets, groups, stages, names };

/// The type of a Value that a member of type T has: that of an optional is its value's, an enum is
/// its number.
template <typename T>
constexpr auto held() {
  if constexpr (requires(T member) { member.has_value(); })
    return held<typename T::value_type>();
  else if constexpr (std::is_enum_v<T> || (std::is_integral_v<T> && !std::is_same_v<T, bool>))
    return std::type_identity<std::int64_t>();
  else
    return std::type_identity<T>();
}

template <typename T, typename... Types>
constexpr Kind kind_in(const std::variant<Types...>*) {
  int index = -1;
  static_cast<void>(((++index, std::is_same_v<T, Types>) || ...));
  return static_cast<Kind>(index);
}

/// The member of a struct that a key sets. Calls take a struct of the type that member_of() was
/// made for. An optional without a value has Value(), a choice its number.
struct Member {
  Kind kind = Kind::boolean;
  /// Names of the values of an enum or a flag, in their order.
  std::span<const std::string_view> choices;
  const void* (*address)(const void* owner) = nullptr;
  Value (*get)(const void* owner) = nullptr;
  void (*set)(void* owner, Value value) = nullptr;
};

/// The member that `Path`, a lambda without captures, finds in an Owner.
template <typename Owner, typename Path>
constexpr Member member_of(Path, std::span<const std::string_view> choices = {}) {
  using T = std::remove_cvref_t<std::invoke_result_t<Path, Owner&>>;
  using Held = typename decltype(held<T>())::type;
  return {.kind = kind_in<Held>(static_cast<const Value*>(nullptr)),
          .choices = choices,
          .address = [](const void* owner) -> const void* {
            return &Path()(*static_cast<const Owner*>(owner));
          },
          .get = [](const void* owner) -> Value {
            const T& member = Path()(*static_cast<const Owner*>(owner));
            if constexpr (requires { member.has_value(); })
              return member ? Value(*member) : Value();
            else
              return static_cast<Held>(member);
          },
          .set =
              [](void* owner, Value value) {
                Path()(*static_cast<Owner*>(owner)) =
                    static_cast<T>(std::get<Held>(std::move(value)));
              }};
}

/// The member of an Owner at this path, with the names of its values if it is a choice.
#define MEMBER(Owner, path, ...) \
  member_of<Owner>([](auto& owner) -> auto& { return owner.path; } __VA_OPT__(, ) __VA_ARGS__)
#define SETTING(path, ...) MEMBER(Settings, path __VA_OPT__(, ) __VA_ARGS__)

}  // namespace troupe::launch
