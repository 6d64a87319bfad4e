#pragma once

#include <cstdlib>
#include <string>

namespace troupe::test {

/// A variable of the environment, from here to the end of the scope. No other thread may run.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* const name_;
};

}  // namespace troupe::test
