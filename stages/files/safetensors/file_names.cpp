#include "stages/files/safetensors/file_names.h"

#include <fmt/format.h>

namespace troupe::stages {

std::string weights_file(int part, int num_parts) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", part + 1, num_parts);
}
std::string optimizer_file(int part, int num_parts) {
  return fmt::format("optimizer-{:05}-of-{:05}.safetensors", part + 1, num_parts);
}
std::string exp_avg_name(const std::string& parameter) {
  return parameter + ".exp_avg";
}
std::string exp_avg_sq_name(const std::string& parameter) {
  return parameter + ".exp_avg_sq";
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace troupe::stages
