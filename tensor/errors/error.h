#pragma once

#include <stdexcept>
#include <string>

namespace troupe {

/// What went wrong, sorted by who has to act. The value is the process exit code (sysexits.h).
enum class ErrorKind {
  usage = 64,        ///< the command line is wrong
  data = 65,         ///< a file holds what it must not, or is missing
  unavailable = 69,  ///< a peer, a port or a running cluster is not there
  internal = 70,     ///< the run failed: a worker died, a number is not finite, an invariant broke
  retry = 75,        ///< stopped half way; the same command may succeed later
  manifest = 78,     ///< the manifest is wrong
};

/// Whether only the user can correct the error: a new attempt without that fails in the same way.
constexpr bool is_users_mistake(ErrorKind kind) {
  return kind == ErrorKind::usage || kind == ErrorKind::data || kind == ErrorKind::manifest;
}

/// The one exception type for what the environment, a user or a peer did wrong. The text is one
/// message for a person: what, where, why, and the nearest valid choice if there is one. Broken
/// invariants use TROUPE_ASSERT instead.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Refuses what a command line or an order asks for.
[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorKind::usage, message);
}

/// Prints the failed condition and aborts. Never reached by data from outside.
[[noreturn]] void assert_failed(const char* condition, const char* file, int line);

}  // namespace troupe

#define TROUPE_ASSERT(condition) \
  ((condition) ? void(0) : ::troupe::assert_failed(#condition, __FILE__, __LINE__))
