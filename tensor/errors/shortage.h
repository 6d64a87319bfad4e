#pragma once

#include <exception>
#include <optional>
#include <string>

#include "tensor/errors/error.h"

namespace troupe {

/// What the machine had too little of when a call failed with this errno: memory, threads and
/// processes, or descriptors, with the limits of this process that may be the cause. Empty if the
/// errno says nothing of the kind.
std::string shortage(int code);

/// Error{unavailable} if the exception says that the machine had too little of something: what has
/// failed may succeed a moment later. None for any other.
std::optional<Error> as_shortage(const std::exception& exception);

}  // namespace troupe
