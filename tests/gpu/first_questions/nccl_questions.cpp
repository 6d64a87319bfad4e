#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tensor/libraries/device_library.h"
#include "tests/gpu/first_questions/child.h"
#include "tests/gpu/first_questions/questions.h"

namespace troupe::test {
namespace {

constexpr std::size_t kElements = 1024;

/// The functions of NCCL, which is opened as the back end opens it.
class Nccl {
 public:
  Nccl() {
    for (const auto& library : tensor::report_cuda_devices().libraries)
      if (library.name.starts_with("libnccl")) handle_ = dlopen(library.path.c_str(), RTLD_NOW);
    if (!handle_) throw std::runtime_error("no libnccl.so.2");
  }

  template <typename... Arguments>
  ncclResult_t call(ncclResult_t (*)(Arguments...), const char* name,
                    std::type_identity_t<Arguments>... arguments) const {
    auto* const function = reinterpret_cast<ncclResult_t (*)(Arguments...)>(dlsym(handle_, name));
    if (!function) throw std::runtime_error(std::string("NCCL has no ") + name);
    return function(arguments...);
  }

  /// Waits until the communicator has done what it was asked for.
  void finish(ncclComm_t comm, const char* what) const {
    const auto begin = std::chrono::steady_clock::now();
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress && seconds_since(begin) < 30)
      call(ncclCommGetAsyncError, "ncclCommGetAsyncError", comm, &state);
    if (state != ncclSuccess)
      throw std::runtime_error(fmt::format("{}: NCCL's result {}", what, static_cast<int>(state)));
  }

 private:
  void* handle_ = nullptr;
};

/// One of two ranks: adds, and then waits for a sum that its peer never joins until it is aborted.
/// Sends the parent the sum, and the seconds that the abort took.
void be_rank(Line& parent, int rank) {
  setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);  // else two ranks on a GPU are refused
  setenv("NCCL_MAX_CTAS", "2", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  const Nccl nccl;
  ncclUniqueId id{};
  if (rank == 0) {
    nccl.call(ncclGetUniqueId, "ncclGetUniqueId", &id);
    parent.send(id);
  } else {
    id = parent.receive<ncclUniqueId>();
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm{};
  nccl.call(ncclCommInitRankConfig, "ncclCommInitRankConfig", &comm, 2, id, rank, &config);
  nccl.finish(comm, "ncclCommInitRankConfig");
  cudaStream_t stream{};
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  std::vector<float> values(kElements, static_cast<float>(rank + 1));
  void* memory = nullptr;
  check(cudaMalloc(&memory, kElements * sizeof(float)), "cudaMalloc");
  check(cudaMemcpy(memory, values.data(), kElements * sizeof(float), cudaMemcpyDefault),
        "cudaMemcpy");
  const auto add = [&] {
    nccl.call(ncclAllReduce, "ncclAllReduce", memory, memory, kElements, ncclFloat, ncclSum, comm,
              stream);
    nccl.finish(comm, "ncclAllReduce");
  };
  add();
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check(cudaMemcpy(values.data(), memory, kElements * sizeof(float), cudaMemcpyDefault),
        "cudaMemcpy");
  parent.send(*std::ranges::min_element(values));
  if (rank == 0) add();
  parent.receive<int>();
  const auto begin = std::chrono::steady_clock::now();
  nccl.call(ncclCommAbort, "ncclCommAbort", comm);
  check(cudaStreamSynchronize(stream), "the stream after the abort");
  parent.send(seconds_since(begin));
}

}  // namespace

std::string two_nccl_ranks() {
  Child first([](Line& parent) { be_rank(parent, 0); });
  Child second([](Line& parent) { be_rank(parent, 1); });
  second.line().send(first.line().receive<ncclUniqueId>());
  const auto one = first.line().receive<float>(), two = second.line().receive<float>();
  first.line().send(1);
  second.line().send(1);
  const auto seconds = first.line().receive<double>();
  second.line().receive<double>();
  if (one != 3 || two != 3) return fmt::format("no: 1 + 2 is {} and {}", one, two);
  return fmt::format("yes; a sum that the other never joins ends {:.2f} s after the abort",
                     seconds);
}

}  // namespace troupe::test
