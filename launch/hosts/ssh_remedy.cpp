#include "launch/hosts/ssh_remedy.h"

#include <fmt/format.h>

#include <array>

namespace troupe::launch {
namespace {

struct Remedy {
  const char* words;  ///< of OpenSSH
  const char* helps;  ///< with the host in it
};
constexpr std::array kRemedies{
    Remedy{
        "Host key verification failed",
        "its key is not known here, or is another one: ssh-keyscan {0} >> ~/.ssh/known_hosts, if "
        "nobody can pose as it"},
    Remedy{"Permission denied",
           "no key of this user is accepted there: ssh-copy-id {0} brings one, which an agent of "
           "SSH must hold if it has a passphrase"},
    Remedy{"Could not resolve hostname", "check the name, and the name service of this host"},
    Remedy{"Connection refused", "no SSH server listens there; cluster.ssh may name another port"},
    Remedy{"Connection timed out", "is it up, and does a firewall let SSH pass?"},
    Remedy{"No route to host", "is it up, and does a firewall let SSH pass?"},
};

}  // namespace

std::string ssh_remedy(const std::string& host, const std::string& words) {
  const auto has = [&words](const char* text) { return words.find(text) != std::string::npos; };
  if (has("exit code 126") || has("exit code 127"))  // of the shell there
    return "cluster.program names the path of the program there";
  if (!has("exit code 255")) return "";  // the agent's own, which has said what helps
  for (const Remedy& remedy : kRemedies)
    if (has(remedy.words)) return fmt::format(fmt::runtime(remedy.helps), host);
  return "";
}

}  // namespace troupe::launch
