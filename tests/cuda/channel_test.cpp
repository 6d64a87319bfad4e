#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "tensor/cuda/cuda_device.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tests/host_cudart/driver_memory.h"
#include "tests/host_cudart/host_cudart.h"
#include "tests/support/device_channel.h"
#include "tests/support/driver_environment.h"
#include "transport/edges/memory_channel.h"

// The contract of channels for the edges of CUDA's own device, by placement, over a runtime on the
// host whose queues have threads: several, or one for all streams of a GPU, in which a stream that
// waited for the other rank would keep back what that rank waits for.

namespace troupe::test {

using transport::EdgeChoice;
using transport::EdgePlacement;

/// The runtime and the driver from here to the end of the scope, when nothing is left of what they
/// gave.
class HostGpus {
 public:
  explicit HostGpus(const char* queues) : environment_(queues, "EAGER") {
    HostCudart::reset(HostCudart::Runs::on_threads);
    HostDriverMemory::reset();
  }
  ~HostGpus() {
    BOOST_TEST(HostCudart::get().deadlock() == "");
    BOOST_TEST(HostCudart::get().used == 0u);
    const HostDriverMemory& driver = HostDriverMemory::get();
    BOOST_TEST(driver.allocations + driver.mappings + driver.addresses == 0);
    HostCudart::reset();
  }
  HostGpus(const HostGpus&) = delete;
  HostGpus& operator=(const HostGpus&) = delete;

 private:
  const DriverEnvironment environment_;
};

/// Ranks each of which has a GPU, or shares one where there are more.
class CudaWorld {
 public:
  static constexpr bool kOnDevice = true;
  static constexpr int kGpus = 2;  ///< that the runtime has

  CudaWorld(int ranks, EdgeChoice choice, bool shares_memory, const char* queues)
      : gpus_(queues), network_(ranks, shares_memory) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto& device = devices_.emplace_back(
          tensor::DeviceSpec{.kind = tensor::DeviceKind::cuda, .index = rank % kGpus},
          [](const std::string&) {});
      channels_.emplace_back(
          [this, rank]() -> transport::Channel& { return network_.channel(rank); }, device, choice);
    }
  }
  transport::Channel& channel(int rank) { return channels_.at(static_cast<std::size_t>(rank)); }
  tensor::Device& device(int rank) { return devices_.at(static_cast<std::size_t>(rank)); }
  void disconnect(int rank) { network_.disconnect(rank); }
  void restart(int rank) { network_.reconnect(rank); }

 private:
  const HostGpus gpus_;
  std::deque<tensor::cuda::CudaDevice> devices_;
  transport::MemoryNetwork network_;
  std::deque<DeviceChannel> channels_;
};

struct PeerWorld : CudaWorld {
  static constexpr EdgePlacement kPlacement = EdgePlacement::peer;
  explicit PeerWorld(int ranks) : CudaWorld(ranks, EdgeChoice::automatic, true, "1") {}
};
struct StagedWorld : CudaWorld {
  static constexpr EdgePlacement kPlacement = EdgePlacement::staged;
  explicit StagedWorld(int ranks) : CudaWorld(ranks, EdgeChoice::staged, true, "4") {}
};
/// As on two hosts: payloads travel.
struct RemoteWorld : CudaWorld {
  static constexpr EdgePlacement kPlacement = EdgePlacement::staged;
  explicit RemoteWorld(int ranks) : CudaWorld(ranks, EdgeChoice::automatic, false, "1") {}
};

using Worlds = std::tuple<PeerWorld, StagedWorld, RemoteWorld>;

}  // namespace troupe::test

#include "tests/contract/channel_contract.h"
#include "tests/contract/channel_contract_of_configurations.h"
#include "tests/contract/channel_events_contract.h"
#include "tests/contract/channel_pieces_contract.h"
#include "tests/contract/channel_pieces_rules_contract.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(channel_test)

namespace {

constexpr std::int64_t kElements = 5000;

/// What a rank computes with: a stream, an event in it, and memory of one message.
struct Computing {
  explicit Computing(tensor::Device& of)
      : device(of),
        stream(of.make_stream()),
        event(of.make_event()),
        memory(of.allocate(kElements * sizeof(float), tensor::MemoryKind::pinned)) {}
  tensor::Tensor message() const { return memory.view(tensor::DType::f32, {kElements}); }
  /// Copies by the stream, behind all that it was given, and marks the end.
  void copy(const tensor::Tensor& from, const tensor::Tensor& to) {
    device.ops().copy(*stream, from, to);
    event->record(*stream);
  }

  tensor::Device& device;
  const std::unique_ptr<tensor::Stream> stream;
  const std::unique_ptr<tensor::Event> event;
  const tensor::Buffer memory;
};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(slots_lie_where_the_choice_says, World, Worlds) {
  World world(2);
  open_both(world, two_way({64}, 2));
  send_message(world.channel(0), forth(1));
  BOOST_TEST(receive_message(world.channel(1), forth(1)));
  const auto placements = world.channel(0).counts().placements;
  BOOST_TEST_REQUIRE(placements.size() == 1u);
  BOOST_TEST((placements.begin()->placement == World::kPlacement));
}

/// The kernel that writes a message still runs when the message is sent.
BOOST_AUTO_TEST_CASE_TEMPLATE(streams_write_and_read_messages, World, Worlds) {
  World world(2);
  open_both(world, two_way({kElements}, 2));
  Channel &sender = world.channel(0), &receiver = world.channel(1);
  Computing writer(world.device(0)), reader(world.device(1));
  for (std::uint64_t step = 0; step < 20; ++step) {
    std::atomic<bool> may_end{false};
    const tensor::Tensor message = writer.message(), buffer = sender.acquire(forth(step));
    for (std::int64_t i = 0; i < kElements; ++i) message.as<float>()[i] = value_of(forth(step), i);
    HostCudart::get().launch({"forward", [&] { return may_end.load(); }},
                             tensor::cuda::handle_of(*writer.stream));
    writer.copy(message, buffer);
    sender.send(forth(step), buffer, *writer.event);
    BOOST_TEST(!receiver.ready({.message = forth(step), .buffer = {}}));
    may_end = true;
    HostCudart::get().tell();
    reader.copy(receiver.receive(forth(step)), reader.message());
    receiver.release(forth(step), *reader.event);
    reader.event->synchronize();
    BOOST_TEST(holds_message(reader.message(), forth(step)), "step " << step);
    writer.event->synchronize();
  }
  for (Channel* channel : {&sender, &receiver}) channel->settle();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
