#pragma once

#include <exception>

namespace troupe::launch {

/// Prints what an exception says on standard error and returns its exit code. What the machine had
/// too little of is named. `failure` may be null, as where a library destroys a thread while its
/// own exception is under way: then nothing is known but that the program could not go on.
int report_failure(const std::exception_ptr& failure) noexcept;

}  // namespace troupe::launch
