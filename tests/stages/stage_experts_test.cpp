// Experts that replicas share out compute what one stage with all of them computes.

#include <boost/test/unit_test.hpp>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tensor/errors/error.h"
#include "tests/support/families.h"
#include "tests/support/pipeline.h"
#include "tests/support/test_device.h"
#include "tests/tensor/thread_group.h"

BOOST_AUTO_TEST_SUITE(stage_experts_test)

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int kMicrobatches = 2;  // of a replica
constexpr std::int64_t kMicro = 2, kSeqLen = 9, kVocab = 53;

struct Setup {
  std::string_view family = "qwen3_moe";
  int ep = 1;
  std::vector<int> layers_of_chunk = {3};
  std::vector<int> stage_of_chunk = {0};
  Order order = Order::one_by_one;
  stages::Recompute recompute{};
  double dropout = 0;
  bool packed = false;
  /// The same token everywhere, so that few experts have all rows, and some none.
  bool uneven = false;
  std::int64_t capacity = 0;
};

stages::ModelConfig model_of(const Setup& setup) {
  const stages::ModelConfig sizes{.hidden_size = 32,
                                  .intermediate_size = 24,
                                  .num_hidden_layers = 3,
                                  .num_attention_heads = 4,
                                  .num_key_value_heads = 2,
                                  .head_dim = 8,
                                  .vocab_size = kVocab,
                                  .initializer_range = 0.1,
                                  .hidden_dropout = setup.dropout};
  stages::ModelConfig model = as_family(sizes, setup.family);
  model.experts.capacity = setup.capacity;
  return model;
}

Tokens tokens_of(const Setup& setup, int microbatch) {
  const auto seed = static_cast<std::uint64_t>(microbatch + 1);
  const std::int64_t count = kMicro * kSeqLen;
  if (setup.packed) {
    const auto rows = stages::row_sizes(stages::Documents::packed, count, 1);
    Tokens tokens = random_documents(rows, kSeqLen, kVocab, 1);  // as many targets each
    tokens.ids = random_tokens(std::ssize(tokens.ids), kVocab, seed).ids;
    for (const std::int32_t target : tokens.targets)
      tokens.real.push_back(target == tensor::kNoTarget ? 0 : 1);
    return tokens;
  }
  Tokens tokens = random_tokens(count, kVocab, seed);
  if (setup.uneven) std::ranges::fill(tokens.ids, 7);
  return tokens;
}

/// What one replica has computed of a step.
struct Replica {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> gradients;
  std::vector<stages::RouterLoad> loads;
};

Replica train(const Setup& setup, int replica, int replicas, const stages::ShardGroups& groups) {
  const auto device = test::make_test_device();
  const int of_replica = kMicrobatches * setup.ep / replicas;
  Pipeline pipeline(
      {.model = model_of(setup),
       .layers_of_chunk = setup.layers_of_chunk,
       .stage_of_chunk = setup.stage_of_chunk,
       .microbatches = of_replica,
       .micro = kMicro,
       .seq_len = kSeqLen,
       .documents = setup.packed ? stages::Documents::packed : stages::Documents::joined,
       .order = setup.order,
       .sharding = {.ep = replicas, .ep_member = replica},
       .replicas = replicas,
       .replica = replica,
       .recompute = setup.recompute},
      *device, 11, groups);
  std::vector<Tokens> batch;
  for (int m = 0; m < of_replica; ++m) batch.push_back(tokens_of(setup, replica * of_replica + m));
  Replica out{.losses = pipeline.gradients(batch).losses};
  for (const auto& stage : pipeline.stages()) {
    for (const stages::Parameter& p : stage->parameters()) {
      const auto* g = test::opened(p.gradient).as<float>();
      out.gradients[p.name].assign(g, g + p.gradient.num_elements());
    }
    for (const stages::RouterLoad& load : stage->router_loads()) out.loads.push_back(load);
  }
  return out;
}

/// All replicas, each a thread. Nothing in them may use Boost.Test, which serves one thread.
std::vector<Replica> train_all(const Setup& setup) {
  const auto forward = std::make_shared<tensor::Meeting>(setup.ep);
  const auto backward = std::make_shared<tensor::Meeting>(setup.ep);
  std::vector<Replica> replicas(static_cast<std::size_t>(setup.ep));
  std::vector<std::exception_ptr> faults(replicas.size());
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < setup.ep; ++i)
      threads.emplace_back([&, i] {
        tensor::ThreadGroup f(forward, i, tensor::Moves::at_wait);
        tensor::ThreadGroup b(backward, i, tensor::Moves::at_wait);
        try {
          replicas[static_cast<std::size_t>(i)] =
              train(setup, i, setup.ep, {.experts = {.forward = &f, .backward = &b}});
        } catch (const std::exception& fault) {
          faults[static_cast<std::size_t>(i)] = std::current_exception();
          forward->abort(fault.what());
          backward->abort(fault.what());
        }
      });
  }
  for (const auto& fault : faults)
    if (fault) std::rethrow_exception(fault);
  return replicas;
}

/// The gradients of all replicas together, where each expert is one's alone.
std::map<std::string, std::vector<double>> sums_of(const std::vector<Replica>& replicas) {
  std::map<std::string, std::vector<double>> sums;
  for (const Replica& replica : replicas)
    for (const auto& [name, gradient] : replica.gradients) {
      std::vector<double>& sum = sums[name];
      sum.resize(gradient.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
  return sums;
}

void check_loads(const std::vector<Replica>& replicas, const Replica& whole) {
  for (std::size_t layer = 0; layer < whole.loads.size(); ++layer) {
    stages::RouterLoad sum = replicas.front().loads.at(layer);
    for (std::size_t r = 1; r < replicas.size(); ++r) {
      const stages::RouterLoad& more = replicas[r].loads.at(layer);
      for (std::size_t e = 0; e < sum.load.size(); ++e) sum.load[e] += more.load[e];
      sum.balance += more.balance;
      sum.entropy += more.entropy;
      sum.z += more.z;
    }
    const stages::RouterLoad& expected = whole.loads[layer];
    BOOST_TEST(sum.layer == expected.layer);
    double chosen = 0;
    for (std::size_t e = 0; e < sum.load.size(); ++e) {
      BOOST_TEST(std::abs(sum.load[e] - expected.load[e]) < 1e-6);
      chosen += sum.load[e];
    }
    BOOST_TEST(std::abs(chosen - std::round(chosen)) < 1e-5, "not all choices are counted");
    BOOST_TEST(std::abs(sum.balance - expected.balance) < 1e-5);
    BOOST_TEST(std::abs(sum.entropy - expected.entropy) < 1e-5);
    BOOST_TEST(std::abs(sum.z - expected.z) < 1e-5 * (1 + expected.z));
  }
}

void check_close(const Setup& setup) {
  const Replica whole = train(setup, 0, 1, {});
  const std::vector<Replica> replicas = train_all(setup);
  std::size_t m = 0;
  for (const Replica& replica : replicas)
    for (const double loss : replica.losses)
      BOOST_TEST(std::abs(loss / whole.losses.at(m++) - 1) < 2e-6);
  BOOST_TEST(m == whole.losses.size());
  const auto sums = sums_of(replicas);
  BOOST_TEST(sums.size() == whole.gradients.size());
  for (const auto& [name, gradient] : whole.gradients) {
    double error = 0, size = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      error += std::pow(sums.at(name)[i] - gradient[i], 2);
      size += std::pow(double{gradient[i]}, 2);
    }
    BOOST_TEST(error <= 1e-10 * size, name << ": " << std::sqrt(error / size));
  }
  check_loads(replicas, whole);
}

void check_same(const Setup& a, const Setup& b) {
  const auto first = train_all(a), second = train_all(b);
  for (std::size_t r = 0; r < first.size(); ++r) {
    BOOST_TEST((first[r].losses == second[r].losses), "losses of replica " << r);
    for (const auto& [name, gradient] : first[r].gradients)
      BOOST_TEST((second[r].gradients.at(name) == gradient), name << " of replica " << r);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(shared_experts_compute_what_one_stage_computes) {
  for (const char* family : {"mixtral", "qwen3_moe"})
    for (const int ep : {2, family[0] == 'm' ? 4 : 3}) BOOST_TEST_CONTEXT(family << ", ep " << ep) {
        check_close({.family = family, .ep = ep});
        check_close({.family = family, .ep = ep, .packed = true});
        check_close({.family = family, .ep = ep, .uneven = true});
        check_close({.family = family, .ep = ep, .dropout = 0.2});
      }
}

BOOST_AUTO_TEST_CASE(cuts_orders_and_recompute_change_no_bit) {
  const Setup plain{.ep = 2};
  check_same(plain, plain);
  using Mode = stages::Recompute::Mode;
  for (const Order order : {Order::all_forward, Order::late_weights, Order::mixed_backward}) {
    Setup other = plain;
    other.order = order;
    check_same(plain, other);
    other.layers_of_chunk = {1, 2};
    other.stage_of_chunk = {0, 1};
    check_same(plain, other);
    for (const auto& [mode, layers] :
         {std::pair{Mode::selective, 1}, {Mode::output, 1}, {Mode::full, 1}, {Mode::full, 3}}) {
      other.recompute = {.mode = mode, .num_layers = layers};
      check_same(plain, other);
    }
  }
}

// All tokens are one, so that some expert of the first layer has all of a microbatch.
BOOST_AUTO_TEST_CASE(an_expert_with_too_many_tokens_ends_the_run) {
  Setup setup{.family = "mixtral", .uneven = true, .capacity = kMicro * kSeqLen};
  train(setup, 0, 1, {});
  setup.ep = 2;
  check_close(setup);
  setup.capacity = kMicro * kSeqLen - 1;
  const auto names_it = [](const Error& error) {
    const std::string text = error.what();
    BOOST_TEST_MESSAGE(text);
    return error.kind() == ErrorKind::data && text.find("layer 0") != std::string::npos &&
           text.find("has 18 tokens") != std::string::npos &&
           text.find("expert_capacity = 17") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(train_all(setup), Error, names_it);
  setup.ep = 1;
  BOOST_CHECK_EXCEPTION(train_all(setup), Error, names_it);
}

BOOST_AUTO_TEST_SUITE_END()
