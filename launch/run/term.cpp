#include "launch/run/term.h"

#include <fmt/format.h>
#include <unistd.h>

#include "launch/host/machine.h"
#include "launch/run/run_directory.h"

namespace troupe::launch {

Term newest_term(const std::filesystem::path& run) {
  const auto json = read_json(run / kTermFile);
  return json ? read_fields<Term>(*json) : Term{};
}

Term term_of_this_process(std::int64_t number) {
  return {.number = number, .host = host_name(), .pid = getpid()};
}

std::string to_string(const Term& term) {
  return fmt::format("process {} on {}, term {}", term.pid, term.host, term.number);
}

}  // namespace troupe::launch
