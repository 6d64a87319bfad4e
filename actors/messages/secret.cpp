#include "actors/messages/secret.h"

#include <sys/random.h>

#include <cstdio>

#include "tensor/error.h"

namespace troupe::actors {

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value)
    throw Error(ErrorKind::unavailable, "the kernel gives no random numbers");
  return value;
}

std::string random_token() {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(random_u64()),
                static_cast<unsigned long long>(random_u64()));
  return text;
}

bool equal_secrets(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace troupe::actors
