#include "transport/collectives/one_shot_members.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/cpu/local_group.h"
#include "tests/support/reachable_device.h"

// How the members of a group come to memory that all of them reach.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(one_shot_members_test)

namespace {

/// Keeps what it was made with, and computes nothing.
struct KeptMemory final : tensor::OneShotNorm {
  explicit KeptMemory(tensor::PeerMemory with) : memory(std::move(with)) {}
  tensor::Tensor part(tensor::DType, const tensor::Shape&) override { return {}; }
  void run(tensor::Stream&, const tensor::OneShotCall&) override {}
  void abort(const std::string&) override {}
  std::string fault() const override { return {}; }

  tensor::PeerMemory memory;
};

class SharingDevice final : public ReachableDevice, public tensor::OneShotDevice {
 public:
  explicit SharingDevice(int gpu) : gpu_(static_cast<std::uint64_t>(gpu)) {}
  std::array<std::uint64_t, 2> hardware() const override { return {7, gpu_}; }
  std::unique_ptr<tensor::OneShotNorm> make_one_shot_norm(tensor::PeerMemory memory) override {
    return std::make_unique<KeptMemory>(std::move(memory));
  }

 private:
  const std::uint64_t gpu_;
};

using Devices = std::vector<std::unique_ptr<SharingDevice>>;

/// What the members of a group of these devices get.
std::vector<transport::MadeOneShot> make(const Devices& all) {
  const auto groups = tensor::make_local_group(static_cast<int>(all.size()));
  std::vector<transport::MadeOneShot> made(all.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] { made[i] = transport::make_one_shot(*all[i], *groups[i]); });
  threads.clear();
  return made;
}

Devices devices(int count) {
  Devices all;
  for (int i = 0; i < count; ++i) all.push_back(std::make_unique<SharingDevice>(i));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_member_reaches_the_memory_of_every_other_one) {
  for (const int count : {2, 3, tensor::kMostOneShotMembers}) {
    const auto all = devices(count);
    const auto made = make(all);
    std::vector<const tensor::PeerMemory*> memory;
    for (const auto& member : made) {
      BOOST_TEST_REQUIRE(member.norm);
      memory.push_back(&static_cast<const KeptMemory&>(*member.norm).memory);
    }
    for (int from = 0; from < count; ++from)
      for (int to = 0; to < count; ++to) {
        std::byte* const place = memory[static_cast<std::size_t>(from)]->of(to) + 8 * from;
        BOOST_TEST((*place == std::byte{0}));
        *place = std::byte(1 + from);
        BOOST_TEST((memory[static_cast<std::size_t>(to)]->of(to)[8 * from] == std::byte(1 + from)));
      }
  }
}

BOOST_AUTO_TEST_CASE(nobody_gets_what_one_member_cannot_have) {
  const auto refused = [](const auto& change, std::size_t member, const std::string& says,
                          int count = 3) {
    auto all = devices(count);
    change(all);
    const auto made = make(all);
    for (const auto& each : made) {
      BOOST_TEST(!each.norm);
      BOOST_TEST(!each.fault.empty());
    }
    BOOST_TEST(made[member].fault.find(says) != std::string::npos, made[member].fault);
  };
  refused([](auto& all) { all[1]->can_share = false; }, 1, "cannot share memory");
  refused([](auto& all) { all[1]->can_share = false; }, 0, "member 1 offers it no memory");
  refused([](auto& all) { all[2]->can_map = false; }, 2, "does not reach the memory of member 0");
  refused([](auto& all) { all[2]->can_map = false; }, 0, "another member");
  refused([](auto& all) { all[2] = std::make_unique<SharingDevice>(0); }, 2,
          "members 2 and 0 have one GPU");
  refused([](auto&) {}, 0, "more than 8 members", 9);
}

BOOST_AUTO_TEST_CASE(devices_that_do_not_sum_so_are_not_asked) {
  ReachableDevice device;
  const auto groups = tensor::make_local_group(2);
  const auto made = transport::make_one_shot(device, *groups[0]);
  BOOST_TEST(!made.norm);
  BOOST_TEST(made.fault == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
