#pragma once

#include <string>
#include <string_view>

#include "stages/corpus/chat/jinja/values/jinja_value.h"

// What Jinja and Python make of operators and members. Everything that they do and this does not,
// or for which they have an error, is Error{data} with the line of the template.

namespace troupe::stages {

/// Applies one of == != < <= > >= in + - * / // % ~ (and `not in`) to two values.
JinjaValue operate(std::string_view name, const JinjaValue& left, const JinjaValue& right,
                   int line);
JinjaValue negative(const JinjaValue& value, int line);
/// Python's ==.
bool are_equal(const JinjaValue& left, const JinjaValue& right);
/// Python's <, of two strings or two numbers.
bool is_less(const JinjaValue& left, const JinjaValue& right, int line);

/// whole[key]: the member of an object, the element of a list, or the character of a string, which
/// count from the end if the key is negative. Undefined if there is none.
JinjaValue element_of(const JinjaValue& whole, const JinjaValue& key, int line);
/// whole.name, for what is no method's name: undefined if there is none.
JinjaValue attribute_of(const JinjaValue& whole, const std::string& name, int line);
/// A part of a list or of a string. Bounds that are undefined are left out.
JinjaValue slice_of(const JinjaValue& whole, const JinjaValue& begin, const JinjaValue& end,
                    const JinjaValue& step, int line);

/// What a loop goes through: the elements of a list, the names of an object's members, the
/// characters of a string, and nothing if the value is undefined.
JinjaList elements_of(const JinjaValue& whole, int line);
/// The characters of a text.
JinjaList characters_of(std::string_view text);

}  // namespace troupe::stages
