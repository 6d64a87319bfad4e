#include <cstdio>
#include <exception>
#include <new>
#include <variant>

#include "launch/commands/commands.h"
#include "tensor/error.h"

int main(int argc, char** argv) {
  using troupe::Error;
  using troupe::ErrorKind;
  try {
    const auto options = troupe::launch::parse_options(argc, argv);
    return std::visit([](const auto& chosen) { return troupe::launch::run(chosen); }, options);
  } catch (const Error& error) {
    std::fprintf(stderr, "troupe: %s\n", error.what());
    return static_cast<int>(error.kind());
  } catch (const std::bad_alloc&) {
    std::fputs("troupe: this machine has too little free memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "troupe: %s\n", error.what());
  }
  return static_cast<int>(ErrorKind::internal);
}
