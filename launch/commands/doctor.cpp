#include "launch/commands/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/shm.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <set>

#include "launch/commands/options.h"
#include "launch/control/control_server.h"
#include "launch/host/console.h"
#include "launch/host/device_json.h"
#include "launch/host/machine.h"
#include "launch/host/quantities.h"
#include "tensor/errors/error.h"
#include "tensor/libraries/context_size.h"
#include "tensor/libraries/gpu_choice.h"
#include "transport/node/ucx_node.h"
#include "transport/ucx/ucx_memory.h"

namespace troupe::launch {
namespace {

using Result = Checkup::Result;

/// What UCX makes for a rank: some segments of shared memory for its queues, of up to 6 MiB.
constexpr std::size_t kSegments = 5;
constexpr std::int64_t kSegmentBytes = 6 << 20;
/// The least limit of open files: the launcher, and a worker with many peers, have sockets, logs
/// and shared memory open.
constexpr rlim_t kUsualFiles = 1024;

Checkup cores(const Machine& machine) {
  Checkup checkup{.what = "cores", .detail = fmt::format("{} free", machine.free_cores)};
  if (machine.cpu_quota)
    checkup.detail +=
        fmt::format(", from a control group's quota of {:.3g} cores of time", *machine.cpu_quota);
  return checkup;
}

Checkup memory(const Machine& machine) {
  Checkup checkup{.what = "memory",
                  .detail = bytes_text(machine.memory_bytes) +
                            (machine.memory_is_limited ? ", the limit of a control group" : "")};
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return checkup;
  checkup.result = Result::warning;
  checkup.detail += fmt::format(
      "; ulimit -v allows a process {} of addresses, of which threads and "
      "libraries take more than they use",
      bytes_text(static_cast<std::int64_t>(limit.rlim_cur)));
  return checkup;
}

/// Why the segments that UCX makes for a rank cannot be made; empty: they can. They are System V's,
/// so /dev/shm does not matter.
std::string try_segments() {
  std::vector<int> made;
  std::string why;
  while (why.empty() && made.size() < kSegments) {
    const int id = shmget(IPC_PRIVATE, kSegmentBytes, IPC_CREAT | 0600);
    if (id < 0)
      why = std::strerror(errno);
    else
      made.push_back(id);
  }
  for (const int id : made) shmctl(id, IPC_RMID, nullptr);
  return why;
}

/// Runs work without it: messages between workers then take another way.
Checkup shared_memory() {
  const std::string what = fmt::format("{} segments of {}", kSegments, bytes_text(kSegmentBytes));
  const std::string why = try_segments();
  if (why.empty()) return {.what = "shared memory", .detail = what + " can be made"};
  return {
      .result = Result::warning,
      .what = "shared memory",
      .detail = fmt::format("{} of System V cannot be made: {}; ipcs -l tells the limits "
                            "(kernel.shmmax, shmall, shmmni). Runs work, and their messages take "
                            "another way, which is slower",
                            what, why)};
}

Checkup open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  Checkup checkup{.what = "open files", .detail = fmt::format("at most {}", limit.rlim_cur)};
  if (limit.rlim_cur >= kUsualFiles) return checkup;
  checkup.result = Result::warning;
  checkup.detail += fmt::format("; raise it to {} with ulimit -n", kUsualFiles);
  return checkup;
}

/// Checks whether processes of one user may copy from each other's memory. Without that UCX uses
/// shared buffers.
Checkup process_memory() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  file >> scope;
  if (!file || scope <= 1) return {.what = "process memory", .detail = "readable between workers"};
  return {.result = Result::warning,
          .what = "process memory",
          .detail = fmt::format("kernel.yama.ptrace_scope = {}: large tensors are copied twice; 1 "
                                "allows single copies",
                                scope)};
}

template <typename Try>
Checkup tried(const char* what, Try&& attempt) {
  try {
    return {.what = what, .detail = attempt()};
  } catch (const std::exception& e) {
    return {.result = Result::failure, .what = what, .detail = e.what()};
  }
}

std::string open_loopback() {
  const ControlServer server({});
  return "ports can be opened on 127.0.0.1";
}

std::string open_data_plane() {
  const auto node = transport::UcxNode::create({.environment = transport::prepare_ucx()});
  return fmt::format(
      "UCX starts, its address has {} bytes; it {} edges to GPUs of other hosts are staged",
      node->address().size(),
      transport::ucx_reaches_cuda() ? "could carry GPU memory, yet" : "cannot carry GPU memory:");
}

/// The loaded versions of the shared libraries that decide speed and behaviour.
std::string loaded_libraries() {
  std::set<std::string> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        std::error_code error;
        const auto real = std::filesystem::canonical(info->dlpi_name, error);
        const std::string name = error ? "" : real.filename().string();
        constexpr std::array kNames{"libucp.", "libdnnl.", "libcaf_core.",
                                    "libprometheus-cpp-core."};
        if (std::ranges::any_of(kNames, [&](const char* n) { return name.starts_with(n); }))
          static_cast<std::set<std::string>*>(into)->insert(name);
        return 0;
      },
      &found);
  return fmt::format("{}", fmt::join(found, ", "));
}

/// The other GPUs whose memory a GPU reads and writes directly.
std::string peers_text(const tensor::DeviceInfo& gpu) {
  if (gpu.peers.empty()) return "no peer access";
  return fmt::format("peer access to {}", fmt::join(gpu.peers, ", "));
}

std::string context_text(const tensor::DeviceInfo& gpu) {
  if (gpu.context_bytes == 0) return "";
  return fmt::format(", a process's context takes {}",
                     bytes_text(static_cast<std::int64_t>(gpu.context_bytes)));
}

Checkup gpu(std::size_t index, const tensor::DeviceInfo& gpu) {
  const auto bytes = static_cast<std::int64_t>(gpu.memory_bytes);
  return {.what = fmt::format("gpu {}", index),
          .detail = fmt::format(
              "{} ({}), compute capability {}.{}, {} multiprocessors, {}, {} of "
              "it free{}, {}, {}",
              gpu.name, gpu.uuid, gpu.major, gpu.minor, gpu.multiprocessors, bytes_text(bytes),
              bytes_text(static_cast<std::int64_t>(gpu.free_bytes)), context_text(gpu),
              peers_text(gpu), gpu.shares_memory ? "edges may be peer" : "edges are staged")};
}

}  // namespace

std::vector<Checkup> examine_gpus(const tensor::DeviceReport& report) {
  std::vector<Checkup> checkups;
  if (!report.fault.empty())
    checkups.push_back({.what = "gpu", .detail = "none can be used: " + report.fault});
  if (!report.driver.empty()) checkups.push_back({.what = "gpu driver", .detail = report.driver});
  for (std::size_t i = 0; i < report.devices.size(); ++i)
    checkups.push_back(gpu(i, report.devices[i]));
  if (report.devices.size() > 1)
    checkups.push_back(
        {.what = "gpu order",
         .detail = fmt::format("ranks take {} by turns, unless cluster.gpus says "
                               "otherwise",
                               fmt::join(tensor::gpus_in_order(report.devices, {}), ", "))});
  for (const tensor::LibraryVersion& library : report.libraries)
    checkups.push_back(
        {.what = "gpu library",
         .detail = fmt::format("{} {} in {}", library.name, library.version, library.path)});
  return checkups;
}

std::vector<Checkup> examine_machine(const tensor::DeviceReport& gpus) {
  const Machine machine = this_machine();
  std::vector<Checkup> checkups{cores(machine),
                                memory(machine),
                                shared_memory(),
                                open_files(),
                                process_memory(),
                                tried("loopback", open_loopback),
                                tried("data plane", open_data_plane),
                                {.what = "libraries", .detail = loaded_libraries()}};
  const std::vector<Checkup> of_gpus = examine_gpus(gpus);
  checkups.insert(checkups.end(), of_gpus.begin(), of_gpus.end());
  return checkups;
}

std::string to_text(const Checkup& checkup) {
  constexpr std::array kResults{"ok", "warn", "FAIL"};
  return fmt::format("{:<5} {:<15} {}\n", kResults[static_cast<std::size_t>(checkup.result)],
                     checkup.what, checkup.detail);
}

int run(const DevicesOptions&) {
  tensor::DeviceReport report = tensor::report_cuda_devices();
  tensor::measure_contexts(report);
  print(nlohmann::json(report).dump() + "\n");
  return 0;
}

}  // namespace troupe::launch
