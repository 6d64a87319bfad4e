#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <string>

namespace troupe::test {

/// The answer of a server at an "http://127.0.0.1:PORT/path" to a request of this method, head and
/// body. `host` replaces the Host header if given.
inline std::string http_answer(const std::string& method, const std::string& url,
                               const std::string& body, const std::string& host) {
  const std::size_t begin = url.find("//") + 2, slash = url.find('/', begin);
  const std::string authority = url.substr(begin, slash - begin);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(authority.substr(authority.rfind(':') + 1))));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  BOOST_REQUIRE(connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  const std::string request =
      method + " " + url.substr(slash) + " HTTP/1.1\r\nHost: " + (host.empty() ? authority : host) +
      "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
  (void)send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  std::array<char, 4096> bytes;
  for (ssize_t got; (got = recv(fd, bytes.data(), bytes.size(), 0)) > 0;)
    answer.append(bytes.data(), static_cast<std::size_t>(got));
  close(fd);
  return answer;
}

inline std::string http_get(const std::string& url, const std::string& host = "") {
  return http_answer("GET", url, "", host);
}
inline std::string http_post(const std::string& url, const std::string& body,
                             const std::string& host = "") {
  return http_answer("POST", url, body, host);
}

/// An answer from after the moment at which one held `needle`. That one may be older in its other
/// parts, because a server with threads of its own reads one value after the other.
inline std::string get_until(const std::string& url, const std::string& needle) {
  while (http_get(url).find(needle) == std::string::npos) {
  }
  return http_get(url);
}

}  // namespace troupe::test
