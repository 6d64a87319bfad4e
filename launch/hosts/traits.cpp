#include "launch/hosts/traits.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "actors/messages/control_plane.h"
#include "tensor/cpu/cpu_device.h"
#include "transport/ucx/ucx_environment.h"

namespace troupe::launch {
namespace {

/// Flags of /proc/cpuinfo by which oneDNN and the kernels of this program choose their code.
constexpr std::array kFeatures{"avx2",        "fma",         "avx512f",  "avx512bw", "avx512vl",
                               "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "avx_vnni",
                               "asimd",       "sve",         "sve2",     "bf16"};

/// A number for what the program's file holds: two builds that print one version may differ.
std::string program_hash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  XXH64_state_t* const state = XXH64_createState();
  XXH64_reset(state, 0);
  std::vector<char> part(1 << 20);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0)
    XXH64_update(state, part.data(), static_cast<std::size_t>(file.gcount()));
  const std::uint64_t hash = XXH64_digest(state);
  XXH64_freeState(state);
  return fmt::format("{:016x}", hash);
}

std::string processor_features() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    const std::set<std::string> has{std::istream_iterator<std::string>(words), {}};
    std::string features;
    for (const char* feature : kFeatures)
      if (has.contains(feature)) features += (features.empty() ? "" : " ") + std::string(feature);
    return features;
  }
  return "unknown";
}

}  // namespace

std::map<std::string, std::string> own_traits(bool with_processor) {
  std::map<std::string, std::string> traits{
      {"program", fmt::format("{} ({})", TROUPE_VERSION, program_hash())},
      {"UCX", transport::ucx_version()},
      {"oneDNN", tensor::one_dnn_version()},
      {"CAF", actors::caf_version()}};
  if (with_processor) traits["processor"] = processor_features();
  return traits;
}

}  // namespace troupe::launch
