#pragma once

#include <toml++/toml.h>

#include <functional>
#include <string>
#include <string_view>

#include "launch/manifest/keys/key.h"

namespace troupe::launch {

/// Where a node stands, for messages.
using PlaceOf = std::function<std::string(const toml::node&)>;

/// The node as a value of the key's kind. Throws Error{manifest} "place: ..." if it has another
/// type, or is not within the key's rule or choices.
Value value_of(const Key& key, const toml::node& node, const PlaceOf& place_of);

/// What a value of this kind must be, as a phrase for messages.
std::string_view name_of(Kind kind);
/// What a node of this type is, as a phrase for messages.
std::string_view name_of(toml::node_type type);
/// The part of a user's word that a message repeats.
std::string_view brief(std::string_view word);
/// Throws Error{manifest} "place: message".
[[noreturn]] void refuse(const std::string& place, const std::string& message);

}  // namespace troupe::launch
