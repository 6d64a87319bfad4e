#include "actors/agent/host_facts.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "tensor/cpu/products/multiply.h"
#include "transport/ucx/network_interface.h"
#include "transport/ucx/ucx_environment.h"

namespace troupe::actors {
namespace {

std::string interface_with(const std::string& address) {
  for (const auto& interface : transport::network_interfaces())
    if (interface.address == address) return interface.name;
  return "";
}

int count_free(const std::string& ports, const std::string& address) {
  const auto range = transport::parse_ports(ports);
  if (!range) return -1;
  int count = 0;
  for (int port = range->first; port <= range->last && count < HostFacts::kMostPorts; ++port)
    count += transport::is_free_port(port, address);
  return count;
}

std::int64_t size_of_shm() {
  struct statvfs shm {};
  return statvfs("/dev/shm", &shm) == 0
             ? static_cast<std::int64_t>(shm.f_blocks) * static_cast<std::int64_t>(shm.f_frsize)
             : 0;
}

bool asks_for_shm() {
  const char* transports = std::getenv("UCX_TLS");
  return transport::UcxEnvironment{.transports = transports ? transports : ""}.may_use_dev_shm();
}

std::int64_t lockable_bytes() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(limit.rlim_cur);
}

double measure_products() {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kSide = 256;
  constexpr std::chrono::milliseconds kBriefly{250};
  const tensor::ProductShape shape{.m = kSide, .k = kSide, .n = kSide};
  const std::vector<float> a(kSide * kSide, 1), b(kSide * kSide, 1);
  std::vector<float> c(kSide * kSide);
  std::vector<std::byte> scratch(tensor::multiply_scratch_bytes(shape));
  const auto once = [&] { tensor::multiply(shape, a.data(), b.data(), c.data(), scratch.data()); };
  once();  // which may choose the code
  const Clock::time_point begin = Clock::now();
  double count = 0;
  for (; Clock::now() - begin < kBriefly; ++count) once();
  const std::chrono::duration<double> took = Clock::now() - begin;
  return count * 2 * kSide * kSide * kSide / took.count();
}

}  // namespace

HostFacts facts_of_host(const std::string& address, const std::string& ports) {
  return {.interface = interface_with(address),
          .free_ports = count_free(ports, address),
          .shm_bytes = size_of_shm(),
          .needs_shm = asks_for_shm(),
          .locked_bytes = lockable_bytes(),
          .flops = measure_products()};
}

}  // namespace troupe::actors
