#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "launch/run/json_fields.h"

namespace troupe::launch {

/// One launcher of a run. Each has a higher number than those before it, and the one with the
/// highest is the run's: who sees a higher number than its own ends. (Raft's word.)
struct Term {
  std::int64_t number = 0;  ///< from 1 on; 0: the run has had no launcher
  std::string host;         ///< on which the launcher runs
  int pid = 0;              ///< its process
};
TROUPE_JSON_FIELDS(Term, keyed("term", x.number), x.host, x.pid)

/// The newest term of a run, as its directory says. Throws Error{data} naming a file that this user
/// may not read.
Term newest_term(const std::filesystem::path& run);
/// The term with this number, of this process.
Term term_of_this_process(std::int64_t number);
/// "process 12 on h1, term 3".
std::string to_string(const Term& term);

}  // namespace troupe::launch
