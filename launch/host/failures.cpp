#include "launch/host/failures.h"

#include <pthread.h>

#include <cstdio>

#include "tensor/error.h"
#include "tensor/shortage.h"

namespace troupe::launch {
namespace {

/// What keeps this process from starting a thread now; empty: nothing.
std::string thread_shortage() {
  pthread_t thread{};
  const int code = pthread_create(
      &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
  if (code != 0) return shortage(code);
  pthread_join(thread, nullptr);
  return "";
}

Error error_of(const std::exception_ptr& failure) {
  if (!failure) {
    const std::string lacks = thread_shortage();
    return lacks.empty() ? Error(ErrorKind::internal, "a library has given up without a reason")
                         : Error(ErrorKind::unavailable, "the machine has " + lacks);
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    if (auto lacks = as_shortage(error)) return *lacks;
    return {ErrorKind::internal, error.what()};
  } catch (...) {
    return {ErrorKind::internal, "an exception of unknown type"};
  }
}

}  // namespace

int report_failure(const std::exception_ptr& failure) noexcept try {
  const Error error = error_of(failure);
  std::fprintf(stderr, "troupe: %s\n", error.what());
  return static_cast<int>(error.kind());
} catch (...) {  // not even the message had room
  std::fputs("troupe: the machine has no memory left\n", stderr);
  return static_cast<int>(ErrorKind::unavailable);
}

}  // namespace troupe::launch
