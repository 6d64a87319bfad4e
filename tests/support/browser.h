#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/support/temp_dir.h"

namespace troupe::test {

/// A browser without a window (Debian's chromium-headless-shell or chromium), driven over its
/// DevTools pipe as a person drives one with windows.
class Browser {
 public:
  /// The program's path; none if no browser is installed.
  static std::optional<std::string> installed();

  /// Starts the browser and opens a page in a window of this size. Fails the test if it cannot.
  Browser(const std::string& program, const std::string& url, int width, int height);
  ~Browser();
  Browser(const Browser&) = delete;

  void resize(int width, int height);
  /// The value of a JavaScript expression; one that is a promise is awaited. Fails the test if it
  /// throws.
  nlohmann::json value_of(const std::string& expression);
  /// Waits until an expression is true. The test's time limit is the only one.
  void wait_for(const std::string& expression);
  /// Presses a key, as "Tab" or "Enter", as a keyboard does.
  void press(const std::string& key);
  /// Presses the left button on the middle of the first element of a CSS selector.
  void click(const std::string& selector);
  /// Errors of the page's scripts so far, a line each.
  const std::string& errors() const { return errors_; }

 private:
  nlohmann::json call(const std::string& method, nlohmann::json parameters);
  nlohmann::json read_message();

  TempDir profile_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string buffered_;
  std::string session_;
  int calls_ = 0;
  std::string errors_;
};

}  // namespace troupe::test
