// The kernel that sums over shards, norms and gathers at once, on members that are emulated GPUs of
// this process, each a thread, against the ops that it stands for.

#include "tensor/device/one_shot_norm.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/cpu/local_group.h"
#include "tensor/parallel/division.h"
#include "tensor/parallel/reduce_norm_gather.h"
#include "tests/cuda/one_shot_devices.h"
#include "tests/support/seed.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(one_shot_norm_test)

namespace {

constexpr float kEps = 1e-5f;

/// What one call computes.
struct Case {
  DType dtype = DType::f32;
  std::int64_t tokens = 1, channels = 8;
  bool bias = false, norm = true, layer_norm = false;
  float plus = 0;
};

/// The case's tensors on one member, of random numbers that follow from its number.
struct Inputs {
  Inputs(Host& host, const Case& of, int member, int number)
      : part(host.normal(of.dtype, {of.tokens, of.channels},
                         "part " + std::to_string(number) + " of " + std::to_string(member))),
        residual(
            host.normal(of.dtype, {of.tokens, of.channels}, "residual " + std::to_string(number))),
        bias(of.bias ? host.normal(DType::f32, {of.channels}, "bias") : Tensor{}),
        weight(of.norm ? host.normal(DType::f32, {of.channels}, "weight") : Tensor{}),
        shift(of.layer_norm ? host.normal(DType::f32, {of.channels}, "shift") : Tensor{}),
        sum(host.output(of.dtype, {of.tokens, of.channels})),
        normed(of.norm ? host.output(of.dtype, {of.tokens, of.channels}) : Tensor{}),
        mean(of.layer_norm ? host.output(DType::f32, {of.tokens}) : Tensor{}),
        rstd(of.norm ? host.output(DType::f32, {of.tokens}) : Tensor{}) {}

  std::vector<HostBytes> results() const {
    std::vector<HostBytes> all;
    for (const Tensor& x : {sum, normed, mean, rstd})
      if (x) all.push_back(Host::bytes_of(x));
    return all;
  }

  Tensor part, residual, bias, weight, shift, sum, normed, mean, rstd;
};
using Results = std::vector<std::vector<HostBytes>>;  // by case

/// Emulated GPUs that map each other's memory.
class Members {
 public:
  Members(int size, std::uint64_t seed)
      : devices_(test::emulated_devices(size, seed)),
        hosts_(devices_.size()),
        sums_(test::one_shot_of(devices_)) {}

  OneShotNorm& sums(std::size_t member) { return *sums_[member]; }

  /// Calls body(member, host) as each member, in a thread of its own with memory of its device, and
  /// returns what they returned. Once.
  template <typename Body>
  auto run(const Body& body) {
    std::vector<decltype(body(0, std::declval<Host&>()))> results(devices_.size());
    std::vector<std::exception_ptr> faults(devices_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < devices_.size(); ++i)
        threads.emplace_back([&, i] {
          try {
            hosts_[i] = std::make_unique<Host>(std::move(devices_[i]));
            results[i] = body(static_cast<int>(i), *hosts_[i]);
          } catch (...) {
            faults[i] = std::current_exception();
          }
        });
    }
    for (const auto& fault : faults)
      if (fault) std::rethrow_exception(fault);
    return results;
  }

 private:
  test::EmulatedDevices devices_;  // until run()
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<OneShotNorm>> sums_;  // last: the devices outlive them
};

void run_one_shot(Host& host, OneShotNorm& sums, const Inputs& x, float plus = 0) {
  host.ops().copy(host.stream(), x.part, sums.part(x.part.dtype, x.part.shape));
  sums.run(host.stream(), {.bias = x.bias,
                           .residual = x.residual,
                           .sum = x.sum,
                           .weight = x.weight,
                           .shift = x.shift,
                           .eps = kEps,
                           .plus = plus,
                           .mean = x.mean,
                           .rstd = x.rstd,
                           .normed = x.normed});
}

/// All cases one after the other, with no wait of the host between them.
Results by_kernel(Host& host, OneShotNorm& sums, int member, const std::vector<Case>& cases) {
  std::vector<Inputs> all;
  for (std::size_t i = 0; i < cases.size(); ++i)
    all.emplace_back(host, cases[i], member, static_cast<int>(i));
  for (std::size_t i = 0; i < cases.size(); ++i) run_one_shot(host, sums, all[i], cases[i].plus);
  host.stream().synchronize();
  Results results;
  for (const Inputs& x : all) results.push_back(x.results());
  return results;
}

/// By an all-reduce, bias and residual, and the norm of all tokens.
std::vector<HostBytes> by_ops(Host& host, ProcessGroup& group, const Inputs& x, float plus) {
  Ops& ops = host.ops();
  Stream& stream = host.stream();
  ops.copy(stream, x.part, x.sum);
  group.all_reduce(stream, x.sum)->wait(stream);
  if (x.bias)
    ops.add_bias(stream, x.bias, x.sum, x.residual);
  else
    ops.accumulate(stream, x.residual, x.sum);
  if (x.shift)
    ops.layer_norm(stream, x.sum, x.weight, x.shift, kEps, x.normed, x.mean, x.rstd);
  else if (x.weight)
    ops.rms_norm(stream, x.sum, x.weight, kEps, plus, x.normed, x.rstd);
  return x.results();
}

/// The norm of all tokens by reduce_norm_gather(), which has no other results of all tokens.
HostBytes by_parts(Host& host, ProcessGroup& group, const Case& of, const Inputs& x) {
  const std::int64_t tokens = of.tokens / group.size();
  const auto own = [&](const Tensor& all) {
    return row_view(all, group.member() * tokens, tokens);
  };
  const Tensor normed = host.output(of.dtype, {of.tokens, of.channels});
  reduce_norm_gather(host.stream(), host.ops(), group,
                     {.partial = x.part,
                      .bias = x.bias,
                      .residual = own(x.residual),
                      .sum = own(x.part),
                      .weight = x.weight,
                      .shift = x.shift,
                      .eps = kEps,
                      .plus = of.plus,
                      .mean = of.layer_norm ? host.output(DType::f32, {tokens}) : Tensor{},
                      .rstd = host.output(DType::f32, {tokens}),
                      .normed = normed});
  return Host::bytes_of(normed);
}

/// Random cases, and those at the ends of what is served: rows of one pack, rows that no registers
/// hold, one token, all bytes.
std::vector<Case> cases_of(std::uint64_t seed) {
  const Random random(seed, "cases");
  std::vector<Case> cases;
  std::uint64_t drawn = 0;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random.uniform(drawn++) * static_cast<double>(n));
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t pack = 16 / static_cast<std::int64_t>(size_of(dtype));
    const auto most = static_cast<std::int64_t>(kMostOneShotBytes / size_of(dtype));
    std::vector<Shape> shapes{{1, pack}, {2, 1030 * pack}, {12, 40 * pack}, {most / 4096, 4096}};
    for (int i = 0; i < 4; ++i) shapes.push_back({1 + below(13), pack * (1 + below(150))});
    for (const Shape& shape : shapes) {
      Case of{.dtype = dtype,
              .tokens = shape[0],
              .channels = shape[1],
              .bias = below(2) == 1,
              .norm = below(4) != 0};
      of.layer_norm = of.norm && below(2) == 1;
      of.plus = of.layer_norm ? 0 : static_cast<float>(below(2));
      cases.push_back(of);
    }
  }
  return cases;
}

}  // namespace

BOOST_AUTO_TEST_CASE(has_the_bits_of_an_all_reduce_and_of_reduce_norm_gather) {
  const std::uint64_t seed = test::fresh_seed();
  const std::vector<Case> cases = cases_of(seed);
  for (const int size : {2, 3, 4}) {
    const auto groups = make_local_group(size);
    const auto expected = Members(size, 0).run([&](int member, Host& host) {
      ProcessGroup& group = *groups[static_cast<std::size_t>(member)];
      Results results;
      for (std::size_t i = 0; i < cases.size(); ++i)
        results.push_back(
            by_ops(host, group, {host, cases[i], member, static_cast<int>(i)}, cases[i].plus));
      return results;
    });
    const auto divided = Members(size, 0).run([&](int member, Host& host) {
      ProcessGroup& group = *groups[static_cast<std::size_t>(member)];
      std::vector<HostBytes> results(cases.size());
      for (std::size_t i = 0; i < cases.size(); ++i)
        if (cases[i].norm && cases[i].tokens % size == 0)
          results[i] =
              by_parts(host, group, cases[i], {host, cases[i], member, static_cast<int>(i)});
      return results;
    });
    // In the order of threads, in one from which every member differs, and in another.
    for (const std::uint64_t order : {std::uint64_t{0}, seed, seed + 100}) {
      Members members(size, order);
      const auto got = members.run([&](int member, Host& host) {
        return by_kernel(host, members.sums(static_cast<std::size_t>(member)), member, cases);
      });
      for (std::size_t m = 0; m < got.size(); ++m)
        for (std::size_t i = 0; i < cases.size(); ++i) {
          const Case& of = cases[i];
          BOOST_TEST_CONTEXT(size << " members, member " << m << ", case " << i << ": "
                                  << name_of(of.dtype) << " [" << of.tokens << ", " << of.channels
                                  << "], bias " << of.bias << ", norm " << of.norm
                                  << of.layer_norm) {
            BOOST_TEST((got[m][i] == expected[m][i]));
            BOOST_TEST((divided[m][i].empty() || divided[m][i] == got[m][i].at(1)));
          }
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_sum_may_stand_where_the_residual_was) {
  const Case of{.dtype = DType::bf16, .tokens = 5, .channels = 64};
  const auto sums_of = [&](bool in_place) {
    Members members(2, 1);
    return members.run([&](int member, Host& host) {
      Inputs x(host, of, member, 0);
      if (in_place) x.sum = x.residual;
      run_one_shot(host, members.sums(static_cast<std::size_t>(member)), x);
      host.stream().synchronize();
      return x.results();
    });
  };
  BOOST_TEST((sums_of(true) == sums_of(false)));
}

BOOST_AUTO_TEST_CASE(calls_take_two_buffers_in_turn) {
  Members members(2, 1);
  const Case of;
  const auto places = members.run([&](int member, Host& host) {
    OneShotNorm& sums = members.sums(static_cast<std::size_t>(member));
    std::vector<std::ptrdiff_t> offsets;
    const Tensor first = sums.part(of.dtype, {of.tokens, of.channels});
    for (int i = 0; i < 4; ++i) {
      const Inputs x(host, of, member, i);
      offsets.push_back(sums.part(of.dtype, x.part.shape).as<std::byte>() - first.as<std::byte>());
      run_one_shot(host, sums, x);
    }
    host.stream().synchronize();
    return offsets;
  });
  for (const auto& of_member : places) {
    BOOST_TEST(of_member[0] == 0);
    BOOST_TEST(std::abs(of_member[1]) >= static_cast<std::ptrdiff_t>(kMostOneShotBytes));
    BOOST_TEST(of_member[2] == 0);
    BOOST_TEST(of_member[3] == of_member[1]);
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_never_comes_does_not_hang_the_others_when_they_are_aborted) {
  Members members(3, 1);
  const Case of{.tokens = 3, .channels = 32};
  std::atomic<int> waiting{0};
  std::jthread control([&] {
    while (waiting < 2) std::this_thread::yield();
    for (std::size_t i = 0; i < 3; ++i) members.sums(i).abort("rank 2 is gone");
  });
  const auto faults = members.run([&](int member, Host& host) -> std::string {
    OneShotNorm& sums = members.sums(static_cast<std::size_t>(member));
    const Inputs x(host, of, member, 0), later(host, of, member, 1);
    if (member == 2) return sums.fault();
    run_one_shot(host, sums, x);
    const bool had_ended = !sums.fault().empty();
    ++waiting;
    host.stream().synchronize();
    run_one_shot(host, sums, later);
    host.stream().synchronize();
    return had_ended ? "ended before" : sums.fault();
  });
  BOOST_TEST(faults[0] == "rank 2 is gone");
  BOOST_TEST(faults[1] == "rank 2 is gone");
}

BOOST_AUTO_TEST_CASE(serves_few_tokens_in_rows_of_whole_packs) {
  BOOST_TEST(OneShotNorm::serves(DType::bf16, {16, 8192}));
  BOOST_TEST(!OneShotNorm::serves(DType::bf16, {17, 8192}));
  BOOST_TEST(!OneShotNorm::serves(DType::f32, {16, 8192}));
  BOOST_TEST(OneShotNorm::serves(DType::f32, {1, 12}));
  BOOST_TEST(!OneShotNorm::serves(DType::bf16, {1, 12}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
