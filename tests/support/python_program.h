#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

// Programs in Python, for tests that compare with Hugging Face's transformers where it is
// installed.

namespace troupe::test {

/// TROUPE_PYTHON names an interpreter that has transformers.
inline std::string python() {
  const char* given = std::getenv("TROUPE_PYTHON");
  return given ? given : "python3";
}

/// Says so, and where nobody looks at the test's messages too, if there is no transformers.
inline bool has_transformers() {
  if (std::system((python() + " -c 'import transformers' 2>/dev/null").c_str()) == 0) return true;
  BOOST_TEST_MESSAGE("SKIPPED: " << python() << " has no transformers");
  std::fputs("SKIPPED: ids are not compared, python has no transformers\n", stderr);
  return false;
}

/// What a command prints. Fails the test if it fails.
inline std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  BOOST_REQUIRE(pipe);
  for (int c; (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  BOOST_REQUIRE(pclose(pipe) == 0);
  return out;
}

}  // namespace troupe::test
