#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tensor/errors/error.h"

namespace troupe::test {

/// Expects that `body` throws an Error of this kind whose message holds every one of `words`.
template <typename Body>
void expect_error(ErrorKind kind, const std::vector<std::string>& words, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string message = error.what();
    BOOST_TEST(static_cast<int>(error.kind()) == static_cast<int>(kind), message);
    for (const std::string& word : words)
      BOOST_TEST(message.find(word) != std::string::npos,
                 "\"" << word << "\" is not in the message: " << message);
    return;
  }
  BOOST_TEST(false, "no Error was thrown" << (words.empty() ? "" : ", expected " + words.front()));
}

}  // namespace troupe::test
