#include <sstream>

#include "actors/director/cluster.h"
#include "tensor/error.h"

namespace troupe::actors {

std::string to_text(const WorkerBirth& birth) {
  std::ostringstream text;
  text << birth.host << '\n'
       << birth.port << '\n'
       << birth.token << '\n'
       << birth.id << '\n'
       << birth.incarnation << '\n'
       << birth.log_dir << '\n';
  return text.str();
}

WorkerBirth parse_birth(const std::string& text) {
  std::istringstream in(text);
  WorkerBirth birth;
  std::string rest;
  if (std::getline(in, birth.host) &&
      in >> birth.port >> birth.token >> birth.id >> birth.incarnation && std::getline(in, rest) &&
      std::getline(in, birth.log_dir))
    return birth;
  throw Error(ErrorKind::internal,
              "standard input holds no birth of a worker: workers are started by the launcher");
}

}  // namespace troupe::actors
