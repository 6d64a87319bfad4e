// Shards of a model on emulated GPUs that write a text: with sums in each other's memory they have
// the bits that collectives give.

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stages/decoder/layers/sublayer_form.h"
#include "stages/inference/generator.h"
#include "tensor/cpu/local_group.h"
#include "tensor/errors/error.h"
#include "tests/cuda/one_shot_devices.h"
#include "tests/stages/generation/generation_model.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(one_shot_generator_test)

namespace {

/// A group of threads for tensors of a device: its members wait for their streams first.
class WaitingGroup final : public tensor::ProcessGroup {
 public:
  explicit WaitingGroup(tensor::ProcessGroup& hosts) : hosts_(hosts) {}
  int size() const override { return hosts_.size(); }
  int member() const override { return hosts_.member(); }
  std::unique_ptr<tensor::Work> start(tensor::Stream& stream,
                                      const tensor::CollectiveCall& call) override {
    ++calls;
    stream.synchronize();
    return hosts_.start(stream, call);
  }
  void abort(const std::string& reason) override { hosts_.abort(reason); }
  std::string fault() const override { return hosts_.fault(); }

  int calls = 0;

 private:
  tensor::ProcessGroup& hosts_;
};

/// What a shard did.
struct Shard {
  std::vector<float> logits;  ///< of all passes; of the first shard
  int collectives = 0;
};

/// Two prompts of which passes have 5 tokens, and two tokens after them.
Shard write(const GenerationModel& model, tensor::Device& device, tensor::ProcessGroup& hosts,
            tensor::OneShotNorm* one_shot) {
  WaitingGroup group(hosts);
  stages::Generator generator(
      {.model = model.config(),
       .part = {.pp = 1, .tp = hosts.size(), .stage = 0, .shard = hosts.member()},
       .sequences = 2,
       .capacity = 12,
       .prompt_rows = 5},
      device, {.shards = &group, .one_shot = one_shot});
  model.load(generator);
  Shard shard;
  const auto keep = [&](std::span<const float> logits) {
    shard.logits.insert(shard.logits.end(), logits.begin(), logits.end());
  };
  keep(generator.prefill({{{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10}}}));
  keep(generator.decode({{11, 12}}));
  keep(generator.decode({{13, 14}}));
  shard.collectives = group.calls;
  return shard;
}

std::vector<Shard> write_on_shards(const GenerationModel& model, int count, bool at_once) {
  EmulatedDevices devices = emulated_devices(count, 1);
  const auto sums = one_shot_of(devices);
  const auto groups = tensor::make_local_group(count);
  std::vector<Shard> shards(devices.size());
  std::vector<std::exception_ptr> faults(devices.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < shards.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          shards[i] = write(model, *devices[i], *groups[i], at_once ? sums[i].get() : nullptr);
        } catch (const std::exception& fault) {
          faults[i] = std::current_exception();
          for (const auto& group : groups) group->abort(fault.what());
          for (const auto& sum : sums) sum->abort(fault.what());
        }
      });
  }
  for (const auto& fault : faults)
    if (fault) std::rethrow_exception(fault);
  return shards;
}

}  // namespace

BOOST_AUTO_TEST_CASE(logits_have_the_bits_that_collectives_give) {
  for (stages::ModelConfig config : generation_models())
    for (const tensor::DType dtype : {tensor::DType::f32, tensor::DType::bf16}) {
      config.dtype = dtype;
      const GenerationModel model(config);
      const auto collectives = write_on_shards(model, 2, false);
      const auto at_once = write_on_shards(model, 2, true);
      BOOST_TEST(!at_once[0].logits.empty());
      BOOST_TEST((at_once[0].logits == collectives[0].logits));
      // Of what is left, the embedding and the logits need collectives. 4 passes of 3 layers,
      // unless something stands between the product and the sum, or no norm follows it.
      const stages::SublayerForm form = stages::sublayer_form(config, 2);
      const int saved = form.changes_branch() || !form.has_norm ? 0 : 4 * 3 * 2;
      BOOST_TEST(collectives[0].collectives - at_once[0].collectives == saved,
                 stages::name_of(config.kind));
    }
}

BOOST_AUTO_TEST_CASE(a_shard_that_the_others_do_not_come_to_ends_with_the_reason) {
  const GenerationModel model(generation_models().front());
  EmulatedDevices devices = emulated_devices(2, 1);
  const auto sums = one_shot_of(devices);
  const auto groups = tensor::make_local_group(2);
  // The other shard takes part in the collectives before the first sum, and never in that.
  std::jthread other([&] {
    const auto stream = devices[1]->make_stream();
    const tensor::Buffer rows = devices[1]->allocate(5 * 16 * 4, tensor::MemoryKind::host);
    groups[1]->all_reduce(*stream, rows.view(tensor::DType::f32, {5, 16}))->wait();
    sums[0]->abort("rank 1 is lost");
  });
  BOOST_CHECK_EXCEPTION(
      write(model, *devices[0], *groups[0], sums[0].get()), Error, [](const Error& error) {
        return error.kind() == ErrorKind::unavailable &&
               std::string(error.what()).find("rank 1 is lost") != std::string::npos;
      });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
