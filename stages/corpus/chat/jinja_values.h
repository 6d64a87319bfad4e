#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/chat/jinja_tree.h"

// What Jinja and Python make of values. Everything that they do and this does not, or for which
// they have an error, is Error{data} with the line of the template.

namespace troupe::stages {

JinjaValue jinja_value(nlohmann::json value);

bool is_true(const JinjaValue& value);
/// The text that a value is written out as: of a string, an integer, a boolean, none, or undefined.
std::string text_of(const JinjaValue& value, int line);

/// Applies one of == != < <= > >= in + - * // % ~ (and `not in`) to two values.
JinjaValue operate(std::string_view name, const JinjaValue& left, const JinjaValue& right,
                   int line);
JinjaValue negative(const JinjaValue& value, int line);

/// The member of an object or the element of a list, which counts from the end if it is negative.
JinjaValue element_of(const JinjaValue& whole, const JinjaValue& key, int line);
/// whole.name, for what is no method's name.
JinjaValue attribute_of(const JinjaValue& whole, const std::string& name, int line);
/// A part of a list. Bounds that are undefined are left out.
JinjaValue slice_of(const JinjaValue& whole, const JinjaValue& begin, const JinjaValue& end,
                    int line);

using JinjaArguments = std::vector<JinjaValue>;
/// text.name(...): strip, lstrip, rstrip, startswith, endswith, split.
JinjaValue call_method(const JinjaValue& target, const std::string& name,
                       const JinjaArguments& arguments, int line);
/// value | name(...): trim, length, count, string, default.
JinjaValue filtered(const JinjaValue& value, const std::string& name,
                    const JinjaArguments& arguments, int line);
/// value is name: none, string, mapping, iterable, sequence, boolean, integer, number, true, false,
/// defined, undefined.
bool is_of_kind(const JinjaValue& value, const std::string& name, int line);

}  // namespace troupe::stages
