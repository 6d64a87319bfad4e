#include "actors/messages/secret.h"

#include <fmt/format.h>
#include <sys/random.h>

#include "tensor/errors/error.h"

namespace troupe::actors {

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value)
    throw Error(ErrorKind::unavailable, "the kernel gives no random numbers");
  return value;
}

std::string random_token() {
  return fmt::format("{:016x}{:016x}", random_u64(), random_u64());
}

bool equal_secrets(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace troupe::actors
