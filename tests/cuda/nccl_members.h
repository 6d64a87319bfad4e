#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tensor/cpu/local_group.h"
#include "tensor/libraries/library_search.h"
#include "tests/contract/group_members.h"
#include "tests/support/emulated_device.h"
#include "tests/support/environment_setting.h"

// Groups on NCCL, for tests over the fake NCCL.

namespace troupe::test {

/// Emulated GPUs of this process, and groups of all of them.
class NcclMembers : public MemberThreads {
 public:
  using Made = std::vector<tensor::MadeGroup>;
  struct Options {
    std::filesystem::path folder = TROUPE_FAKE_NCCL_FOLDER;  ///< in which NCCL is looked for
    std::chrono::milliseconds end_deadline = std::chrono::seconds(60);
  };

  explicit NcclMembers(int size) : NcclMembers(size, Options{}) {}
  NcclMembers(int size, const Options& options)
      : MemberThreads(size,
                      [options] {
                        return std::make_unique<EmulatedDevice>(
                            1, tensor::cuda::kSharedOf90,
                            tensor::LibrarySearch("/proc/self/exe", options.folder),
                            options.end_deadline);
                      }),
        size_(size) {}

  /// What the members get, by member. Groups may still be starting.
  Made make(tensor::GroupSpec spec) {
    for (int i = 0; i < size_; ++i) spec.members.push_back(static_cast<std::uint64_t>(i));
    Made made(spec.members.size());
    const auto hosts = tensor::make_local_group(size_);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < made.size(); ++i)
      threads.emplace_back([&, i] { made[i] = device(i).make_group(spec, *hosts[i]); });
    for (std::thread& thread : threads) thread.join();
    return made;
  }
  /// A group that is ready.
  Made make_ready(const tensor::GroupSpec& spec) {
    Made made = make(spec);
    for (const auto& member : made)
      while (!member.group->is_ready()) std::this_thread::yield();
    return made;
  }

 private:
  const int size_;
};

}  // namespace troupe::test
