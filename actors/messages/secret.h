#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// 64 bits from the kernel's generator.
std::uint64_t random_u64();
/// 128 random bits as 32 hexadecimal digits.
std::string random_token();
/// Equality of two secrets. Its duration depends on their lengths alone, so that it reveals nothing
/// else.
bool equal_secrets(const std::string& a, const std::string& b);

}  // namespace troupe::actors
