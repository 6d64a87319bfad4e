#include <cstring>
#include <limits>

#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(optimizer_ops_test)

namespace {

/// torch.optim.AdamW in double precision.
void step_reference(const AdamWStep& s, const Values& gradient, Values& w, Values& m, Values& v) {
  const double t = static_cast<double>(s.step), beta1 = s.beta1, beta2 = s.beta2, lr = s.lr;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double g = gradient[i] * s.gradient_scale;
    w[i] -= lr * s.weight_decay * w[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const double denominator = std::sqrt(v[i] / (1 - std::pow(beta2, t))) + s.eps;
    w[i] -= lr * (m[i] / (1 - std::pow(beta1, t))) / denominator;
  }
}

void update(Host& host, const AdamWUpdate& update) {
  host.ops().adamw(host.stream(), {&update, 1});
}

BOOST_AUTO_TEST_CASE(adamw_follows_the_reference_over_many_steps) {
  for (const int threads : {1, 2}) {
    Host host(threads);
    const std::int64_t count = 9001;
    const Tensor w = host.normal(DType::f32, {count}, "w");
    const Tensor m = host.zeros(DType::f32, {count}), v = host.zeros(DType::f32, {count});
    Values w_ref = Host::read(w), m_ref = Host::read(m), v_ref = Host::read(v);
    for (int step = 1; step <= 20; ++step) {
      const AdamWStep s{
          .lr = 1e-2f, .beta2 = 0.95f, .weight_decay = 0.1f, .step = step, .gradient_scale = 0.5f};
      const Tensor g = host.normal(DType::f32, {count}, "g" + std::to_string(step));
      step_reference(s, Host::read(g), w_ref, m_ref, v_ref);
      update(host, {s, g, w, m, v, w, m, v});
    }
    check_near(w, w_ref, 1e-6);
    check_near(m, m_ref, 1e-6);
    check_near(v, v_ref, 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(adamw_writes_a_second_generation_and_leaves_the_first) {
  Host host(2);
  const Shape shape{5000};
  const auto state = [&] {
    return std::array{host.normal(DType::f32, shape, "w"), host.normal(DType::f32, shape, "m"),
                      host.zeros(DType::f32, shape)};
  };
  const auto [w, m, v] = state();
  const auto [w_kept, m_kept, v_kept] = state();
  const auto [w_out, m_out, v_out] = state();
  const Tensor g = host.normal(DType::f32, shape, "g");
  const AdamWStep step{.lr = 0.1f, .step = 3};
  update(host, {step, g, w, m, v, w_out, m_out, v_out});
  BOOST_TEST(same_bits(w, w_kept));
  BOOST_TEST(same_bits(m, m_kept));
  BOOST_TEST(same_bits(v, v_kept));
  BOOST_TEST(!same_bits(w, w_out));
  update(host, {step, g, w, m, v, w, m, v});
  BOOST_TEST(same_bits(w, w_out));
  BOOST_TEST(same_bits(m, m_out));
  BOOST_TEST(same_bits(v, v_out));
}

// More parameters than a GPU's launch holds, of odd and even lengths, empty ones among them, each
// with a step of its own.
BOOST_AUTO_TEST_CASE(adamw_updates_many_parameters_as_one_by_one) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Host host(2);
    std::vector<AdamWUpdate> together, apart;
    for (std::int64_t i = 0; i < 61; ++i) {
      const Shape shape{i % 9 == 8 ? 0 : 4 * i + (i % 5 == 4 ? 3 : 0)};
      const AdamWStep step{.lr = 0.01f * static_cast<float>(i + 1),
                           .weight_decay = i % 2 == 0 ? 0.1f : 0.0f,
                           .step = 3};
      const std::string name = std::to_string(i);
      const Tensor g = host.normal(DType::f32, shape, "g" + name);
      for (std::vector<AdamWUpdate>* updates : {&together, &apart}) {
        const Tensor w = host.normal(DType::f32, shape, "w" + name);
        const Tensor m = host.normal(DType::f32, shape, "m" + name);
        const Tensor v = host.zeros(DType::f32, shape);
        const Tensor copy = i % 3 == 0 ? host.zeros(dtype, shape) : Tensor{};
        updates->push_back({step, g, w, m, v, w, m, v, copy});
      }
    }
    host.ops().adamw(host.stream(), together);
    for (const AdamWUpdate& one : apart) update(host, one);
    for (std::size_t i = 0; i < apart.size(); ++i) {
      BOOST_TEST(same_bits(together[i].w, apart[i].w), "parameter " << i);
      BOOST_TEST(same_bits(together[i].m, apart[i].m), "parameter " << i);
      BOOST_TEST(same_bits(together[i].v, apart[i].v), "parameter " << i);
      if (apart[i].copy) BOOST_TEST(same_bits(together[i].copy, apart[i].copy), "parameter " << i);
    }
  }
}

BOOST_AUTO_TEST_CASE(adamw_writes_a_copy_of_the_weights_for_the_products) {
  Host host(2);
  for (const std::int64_t count : {1, 36, 2052, 5003})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::size_t offset : {0, 8, 2}) {  // bytes; 8 is enough for four of bfloat16
        if (offset % size_of(dtype) != 0) continue;
        const Shape shape{count};
        const Tensor w = host.normal(DType::f32, shape, "w"),
                     g = host.normal(DType::f32, shape, "g");
        const Tensor m = host.zeros(DType::f32, shape), v = host.zeros(DType::f32, shape);
        const Tensor whole = host.normal(dtype, {count + 16}, "copy");
        const Tensor copy{whole.as<std::byte>() + offset, dtype, shape};
        update(host, {{.lr = 0.1f, .step = 3}, g, w, m, v, w, m, v, copy});
        const Tensor expected = host.zeros(dtype, shape);
        host.ops().copy(host.stream(), w, expected);
        BOOST_TEST(same_bits(copy, expected),
                   count << " of " << name_of(dtype) << " at " << offset);
      }
}

BOOST_AUTO_TEST_CASE(sum_of_squares_is_exact_to_double_for_any_number_of_threads) {
  for (const std::int64_t count : {1, 255, 256, 257, 100003}) {
    Host one(1), two(2);
    const Tensor x = one.normal(DType::f32, {count}, "x");
    double expected = 0;
    for (const double value : Host::read(x)) expected += value * value;
    const double sum = one.sum_of_squares(x);
    BOOST_TEST(sum == expected, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(two.sum_of_squares(x) == sum);
  }
}

BOOST_AUTO_TEST_CASE(each_piece_has_the_sum_that_it_has_alone) {
  for (const std::int64_t count : {1, 4096, 10'000})
    for (const std::int64_t piece : {1, 7, 1000, 4096, 20'000}) {
      Host one(1), two(2);
      const Tensor x = one.normal(DType::f32, {count}, "x");
      const std::int64_t pieces = (count + piece - 1) / piece;
      const Tensor sums = one.zeros(DType::f64, {pieces}), others = two.zeros(DType::f64, {pieces});
      one.ops().sums_of_squares(one.stream(), x, piece, sums);
      two.ops().sums_of_squares(two.stream(), x, piece, others);
      BOOST_TEST(same_bits(sums, others));
      const HostBytes all = Host::bytes_of(sums);
      // Some of them, also the last one, which may be shorter: each is a call of the device.
      for (std::int64_t i = pieces - 1; i >= 0; i -= 1 + pieces / 50) {
        const Tensor alone{
            x.as<float>() + i * piece, DType::f32, {std::min(piece, count - i * piece)}};
        double sum = 0;
        std::memcpy(&sum, &all[static_cast<std::size_t>(i) * sizeof sum], sizeof sum);
        BOOST_TEST(sum == one.sum_of_squares(alone));
      }
    }
}

BOOST_AUTO_TEST_CASE(sum_of_squares_does_not_overflow_and_shows_nan) {
  Host host(1);
  Values values(1000, 0.0);
  values[999] = 3e38;
  const Tensor x = host.of(DType::f32, {1000}, values);
  BOOST_TEST(host.sum_of_squares(x) == 9e76, boost::test_tools::tolerance(1e-6));
  values[500] = std::numeric_limits<double>::quiet_NaN();
  Host::write(values, x);
  BOOST_TEST(std::isnan(host.sum_of_squares(x)));
}

BOOST_AUTO_TEST_CASE(sum_of_squares_is_the_same_wherever_its_numbers_lie) {
  Host host(1);
  for (const std::int64_t count : {3, 4096, 50000, 50001}) {
    const Tensor x = host.normal(DType::f32, {count + 1}, "x");
    const Tensor moved{x.as<float>() + 1, DType::f32, {count}};
    const Tensor copied = host.of(DType::f32, {count}, Host::read(moved));
    BOOST_TEST(host.sum_of_squares(moved) == host.sum_of_squares(copied));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
