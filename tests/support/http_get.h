#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <string>

namespace troupe::test {

/// The answer of the server at an "http://127.0.0.1:PORT/path", head and body. `host` replaces the
/// Host header if given.
inline std::string http_get(const std::string& url, const std::string& host = "") {
  const std::size_t begin = url.find("//") + 2, slash = url.find('/', begin);
  const std::string authority = url.substr(begin, slash - begin);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(authority.substr(authority.rfind(':') + 1))));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  BOOST_REQUIRE(connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  const std::string request = "GET " + url.substr(slash) +
                              " HTTP/1.1\r\nHost: " + (host.empty() ? authority : host) +
                              "\r\nConnection: close\r\n\r\n";
  (void)send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  std::array<char, 4096> bytes;
  for (ssize_t got; (got = recv(fd, bytes.data(), bytes.size(), 0)) > 0;)
    answer.append(bytes.data(), static_cast<std::size_t>(got));
  close(fd);
  return answer;
}

}  // namespace troupe::test
