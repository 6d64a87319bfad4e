#pragma once

#include <fmt/format.h>

#include <utility>

#include "tensor/errors/error.h"

namespace troupe::stages {

/// An Error{data} whose message is formatted as fmt::format() does.
template <typename... Args>
Error data_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::data, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace troupe::stages
