#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>

namespace troupe::test {

/// What the environment tells CUDA's driver, from here to the end of the scope; null: nothing. No
/// other thread may use the environment.
class DriverEnvironment {
 public:
  explicit DriverEnvironment(const char* connections = nullptr, const char* loading = nullptr) {
    set(kNames[0], connections, before_[0]);
    set(kNames[1], loading, before_[1]);
  }
  ~DriverEnvironment() {
    for (std::size_t i = 0; i < kNames.size(); ++i)
      before_[i] ? setenv(kNames[i], before_[i]->c_str(), 1) : unsetenv(kNames[i]);
  }
  DriverEnvironment(const DriverEnvironment&) = delete;
  DriverEnvironment& operator=(const DriverEnvironment&) = delete;

 private:
  static constexpr std::array kNames{"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING"};

  static void set(const char* name, const char* value, std::optional<std::string>& before) {
    if (const char* const now = std::getenv(name)) before = now;
    value ? setenv(name, value, 1) : unsetenv(name);
  }

  std::array<std::optional<std::string>, kNames.size()> before_;
};

}  // namespace troupe::test
