#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::stages {

class JinjaValue;
struct JinjaScope;
struct JinjaStatement;

/// The elements of a list or of a tuple.
using JinjaList = std::vector<JinjaValue>;
/// The members of an object, in the order in which they came.
using JinjaObject = std::vector<std::pair<std::string, JinjaValue>>;
/// The members of what namespace() makes, which a template may set.
using JinjaSpace = std::map<std::string, JinjaValue>;

/// A macro, and the scope that it sees.
struct JinjaMacro {
  const JinjaStatement* definition = nullptr;
  std::weak_ptr<JinjaScope> scope;
};

/// A value while a template runs, of the kinds that Python has. Copies share what they hold; none
/// of it changes, but namespaces.
class JinjaValue {
 public:
  enum class Kind {
    undefined,
    none,
    boolean,
    integer,  ///< of 64 bits
    number,   ///< Python's float
    string,
    list,
    tuple,
    object,
    loop,  ///< an object that tells where a loop is
    space,
    macro,
    function,  ///< one that every template may call
  };

  JinjaValue() = default;  ///< undefined
  JinjaValue(std::nullptr_t) : kind_(Kind::none) {}
  template <std::same_as<bool> Bool>
  JinjaValue(Bool value) : kind_(Kind::boolean), held_(value) {}
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) JinjaValue(Integer value)
      : kind_(Kind::integer), held_(static_cast<std::int64_t>(value)) {}
  JinjaValue(double value) : kind_(Kind::number), held_(value) {}
  JinjaValue(std::string value);
  JinjaValue(std::string_view value) : JinjaValue(std::string(value)) {}
  JinjaValue(const char* value) : JinjaValue(std::string(value)) {}
  static JinjaValue list(JinjaList elements, Kind kind = Kind::list);
  static JinjaValue object(JinjaObject members, Kind kind = Kind::object);
  static JinjaValue space(JinjaSpace members);
  static JinjaValue macro(JinjaMacro value);
  static JinjaValue function(std::string_view name);
  /// What JSON says. Throws Error{data} for what nests deeper than kDeepestJinja or an integer that
  /// has no 64 bits.
  static JinjaValue of(const nlohmann::ordered_json& json);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_defined() const { return kind_ != Kind::undefined; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_integer() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_integer() || kind_ == Kind::number; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }

  // For values of these kinds alone.
  bool boolean() const { return std::get<bool>(held_); }
  std::int64_t integer() const;  ///< a boolean is 0 or 1
  double number() const;         ///< an integer as well
  const std::string& text() const { return *std::get<Text>(held_); }
  const JinjaList& elements() const { return std::get<Elements>(held_)->elements; }
  const JinjaObject& members() const { return std::get<Members>(held_)->members; }
  JinjaSpace& space() const { return *std::get<Space>(held_); }
  const JinjaMacro& macro() const { return *std::get<Macro>(held_); }
  std::string_view function() const { return *std::get<Text>(held_); }

  /// The member of an object; null if it has none.
  const JinjaValue* find(std::string_view name) const;
  /// How deep lists and objects nest in it.
  int depth() const;
  /// Whether both are one and the same namespace or macro.
  bool is_same_object(const JinjaValue& other) const { return held_ == other.held_; }

 private:
  struct Sequence {
    JinjaList elements;
    int depth = 1;
  };
  struct Mapping {
    JinjaObject members;
    int depth = 1;
  };
  using Text = std::shared_ptr<const std::string>;
  using Elements = std::shared_ptr<const Sequence>;
  using Members = std::shared_ptr<const Mapping>;
  using Space = std::shared_ptr<JinjaSpace>;
  using Macro = std::shared_ptr<const JinjaMacro>;

  Kind kind_ = Kind::undefined;
  std::variant<std::monostate, bool, std::int64_t, double, Text, Elements, Members, Space, Macro>
      held_;
};

/// How deep expressions, statements and values may nest, and macros call each other; it bounds the
/// stack that a template takes. Real templates have some tens, most of them in a row of `+`.
inline constexpr int kDeepestJinja = 200;

/// Whether Python takes a value for true.
bool is_true(const JinjaValue& value);
/// What messages call a value.
std::string_view kind_name(const JinjaValue& value);

}  // namespace troupe::stages
