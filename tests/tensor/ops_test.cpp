#include <limits>

#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(ops_test)

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kRows[] = {1, 5, 63, 65, 130};
constexpr std::int64_t kChannels[] = {7, 16, 96, 133};

BOOST_AUTO_TEST_CASE(fill_zero_clears_every_element) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t count : {1, 100, 10001}) {
      const Tensor x = host.normal(dtype, {count}, "x");
      host.ops().fill_zero(host.stream(), x);
      BOOST_TEST(same_bits(x, host.zeros(dtype, {count})));
    }
  });
}

BOOST_AUTO_TEST_CASE(copy_converts_as_the_scalar_functions_do) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t count : {1, 17, 9001}) {
      const Tensor source = host.normal(DType::f32, {count}, "x", 100);
      const Tensor narrow = host.output(dtype, {count}), wide = host.output(DType::f32, {count});
      const Tensor expected = host.zeros(dtype, {count});
      host.ops().copy(host.stream(), source, narrow);
      host.ops().copy(host.stream(), narrow, wide);
      Host::write(Host::read(source), expected);
      BOOST_TEST(same_bits(narrow, expected));
      BOOST_TEST((Host::read(wide) == Host::read(expected)));
    }
  });
}

BOOST_AUTO_TEST_CASE(copy_keeps_nan_infinity_and_ties) {
  Host host(1);
  constexpr float kValues[] = {std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               3.4e38f,
                               -0.0f,
                               1e-40f,
                               1.00390625f,
                               1.01171875f};
  Values values;
  for (int i = 0; i < 43; ++i) values.push_back(kValues[i % 8]);
  const Tensor source = host.of(DType::f32, {43}, values);
  const Tensor target = host.output(DType::bf16, {43});
  host.ops().copy(host.stream(), source, target);
  const Values got = Host::read(target);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = to_float(to_bfloat16(kValues[i % 8]));
    if (std::isnan(expected)) {
      BOOST_TEST(std::isnan(got[i]));
    } else {
      BOOST_TEST(got[i] == expected);
      BOOST_TEST(std::signbit(got[i]) == std::signbit(expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(copy_moves_other_types_as_they_are) {
  Host host(2);
  const Tensor source = host.ids({3, 1, 2}), target = host.output(DType::i32, {3});
  host.ops().copy(host.stream(), source, target);
  BOOST_TEST(same_bits(source, target));
}

BOOST_AUTO_TEST_CASE(accumulate_adds_once) {
  for_each_setup([](DType dtype, Host& host) {
    const Tensor x = host.normal(dtype, {10003}, "x"), y = host.normal(dtype, {10003}, "y");
    const Values added = Host::read(x);
    Values expected = Host::read(y);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
    host.ops().accumulate(host.stream(), x, y);
    check_near(y, expected, dtype == DType::f32 ? 1e-7 : 4e-3);
  });
}

BOOST_AUTO_TEST_CASE(copy_columns_moves_a_block_and_leaves_the_rest) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [rows, from, to, count] :
         {std::tuple{1, 0, 0, 1}, {5, 3, 1, 4}, {700, 0, 2, 9}, {4, 2, 3, 0}}) {
      const Tensor src = host.normal(dtype, {rows, from + count + 2}, "src");
      const Tensor dst = host.normal(dtype, {rows, to + count + 1}, "dst");
      Values expected = Host::read(dst);
      const Values values = Host::read(src);
      for (int t = 0; t < rows; ++t) {
        for (int c = 0; c < count; ++c) {
          expected[static_cast<std::size_t>(t * (to + count + 1) + to + c)] =
              values[static_cast<std::size_t>(t * (from + count + 2) + from + c)];
        }
      }
      host.ops().copy_columns(host.stream(), src, from, dst, to, count);
      BOOST_TEST(Host::read(dst) == expected);
    }
  });
}

BOOST_AUTO_TEST_CASE(rms_norm_agrees_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t channels : kChannels) {
        const float plus = channels % 2 == 0 ? 0 : 1;
        BOOST_TEST_CONTEXT(rows << " rows, " << channels << " channels, plus " << plus) {
          const Tensor x = host.normal(dtype, {rows, channels}, "x", 3);
          const Tensor w = host.normal(DType::f32, {channels}, "w");
          const Tensor y = host.output(dtype, {rows, channels});
          const Tensor rstd = host.output(DType::f32, {rows});
          host.ops().rms_norm(host.stream(), x, w, 1e-5f, plus, y, rstd);
          check_near(y, reference::rms_norm(Host::read(x), Host::read(w), 1e-5f, plus),
                     tolerance_of(dtype));
          const Tensor dy = host.normal(dtype, {rows, channels}, "dy");
          const Tensor residual = host.normal(dtype, {rows, channels}, "residual");
          const Tensor dx = host.output(dtype, {rows, channels});
          const Tensor dw = host.normal(DType::f32, {channels}, "overwritten");
          host.ops().rms_norm_backward(host.stream(), dy, x, w, plus, rstd, residual, dx, dw);
          reference::NormGradient expected = reference::rms_norm_backward(
              Host::read(dy), Host::read(x), Host::read(w), 1e-5f, plus);
          check_near(dw, expected.dw, tolerance_of(DType::f32));
          const Values added = Host::read(residual);
          for (std::size_t i = 0; i < expected.dx.size(); ++i) expected.dx[i] += added[i];
          check_near(dx, expected.dx, tolerance_of(dtype));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(rms_norm_backward_works_in_place_and_gives_the_same_bits) {
  for_each_setup([](DType dtype, Host& host) {
    const Shape shape{130, 96};
    const Tensor x = host.normal(dtype, shape, "x"), w = host.normal(DType::f32, {96}, "w");
    const Tensor y = host.output(dtype, shape), rstd = host.output(DType::f32, {130});
    host.ops().rms_norm(host.stream(), x, w, 1e-5f, 0, y, rstd);
    const Tensor dy = host.normal(dtype, shape, "dy"), dx = host.output(dtype, shape);
    const Tensor residual = host.normal(dtype, shape, "residual");
    const Tensor dw = host.output(DType::f32, {96}), dw_again = host.output(DType::f32, {96});
    host.ops().rms_norm_backward(host.stream(), dy, x, w, 0, rstd, residual, dx, dw);
    host.ops().rms_norm_backward(host.stream(), dy, x, w, 0, rstd, residual, residual, dw_again);
    BOOST_TEST(same_bits(dx, residual));
    BOOST_TEST(same_bits(dw, dw_again));
    host.ops().rms_norm_backward(host.stream(), dy, x, w, 0, rstd, {}, dx, dw);
    host.ops().rms_norm_backward(host.stream(), dy, x, w, 0, rstd, {}, dy, dw_again);
    BOOST_TEST(same_bits(dx, dy));
    BOOST_TEST(same_bits(dw, dw_again));
  });
}

BOOST_AUTO_TEST_CASE(swiglu_agrees_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t width : kChannels) {
        BOOST_TEST_CONTEXT(rows << " rows, width " << width) {
          const auto t = static_cast<std::size_t>(rows), f = static_cast<std::size_t>(width);
          const Tensor gate_up = host.normal(dtype, {rows, 2 * width}, "gate_up", 3);
          const Tensor y = host.output(dtype, {rows, width});
          host.ops().swiglu(host.stream(), gate_up, y);
          check_near(y, reference::swiglu(Host::read(gate_up), t, f), tolerance_of(dtype));
          const Tensor dy = host.normal(dtype, {rows, width}, "dy");
          const Tensor d = host.output(dtype, {rows, 2 * width});
          host.ops().swiglu_backward(host.stream(), gate_up, dy, d);
          check_near(d, reference::swiglu_backward(Host::read(gate_up), Host::read(dy), t, f),
                     tolerance_of(dtype));
          host.ops().swiglu_backward(host.stream(), gate_up, dy, gate_up);
          BOOST_TEST(same_bits(d, gate_up));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(swiglu_is_exact_to_float32_over_the_whole_range) {
  Host host(1);
  Values gate_up;
  for (double g = -120; g <= 120; g += 0.37) gate_up.insert(gate_up.end(), {g, 1.0});
  const auto rows = static_cast<std::int64_t>(gate_up.size() / 2);
  const Tensor x = host.of(DType::f32, {rows, 2}, gate_up);
  const Tensor y = host.output(DType::f32, {rows, 1});
  host.ops().swiglu(host.stream(), x, y);
  const Values gates = Host::read(x), got = Host::read(y);
  const Values expected = reference::swiglu(gates, gate_up.size() / 2, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double gate = gates[2 * i];
    if (gate > -80) {  // for smaller g, e^-g nears the largest float32 and the result the smallest
      BOOST_TEST(got[i] == expected[i], boost::test_tools::tolerance(5e-7));
    } else {
      BOOST_TEST(std::abs(got[i] - expected[i]) < 1e-31);
    }
  }
}

BOOST_AUTO_TEST_CASE(embedding_agrees_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    const std::vector<std::int32_t> tokens{4, 0, 4, 2, 4, 1, 0};
    const auto rows = static_cast<std::int64_t>(tokens.size());
    for (const std::int64_t channels : kChannels) {
      const auto c = static_cast<std::size_t>(channels);
      const Tensor ids = host.ids(tokens), table = host.normal(DType::f32, {5, channels}, "table");
      const Tensor x = host.output(dtype, {rows, channels});
      host.ops().embedding(host.stream(), ids, table, x);
      check_near(x, reference::embedding(tokens, Host::read(table), c), tolerance_of(dtype));
      const Tensor dx = host.normal(dtype, {rows, channels}, "dx");
      Values expected = reference::embedding_backward(tokens, Host::read(dx), 5, c);
      const Values before = Host::read(table);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
      host.ops().embedding_backward(host.stream(), ids, dx, table);
      check_near(table, expected, tolerance_of(DType::f32));
    }
  });
}

BOOST_AUTO_TEST_CASE(embedding_range_knows_its_own_ids_alone) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t channels : kChannels) {
      const Tensor ids = host.ids({4, 0, 2, 1, 3, 1, -1, 2000000000});
      const Tensor table = host.normal(DType::f32, {2, channels}, "table");  // of ids 1 and 2
      const Tensor x = host.normal(dtype, {8, channels}, "overwritten");
      const Tensor dx = host.normal(dtype, {8, channels}, "dx");
      const Tensor dtable = host.zeros(DType::f32, {2, channels});
      host.ops().embedding_range(host.stream(), ids, 1, table, x);
      host.ops().embedding_range_backward(host.stream(), ids, 1, dx, dtable);
      const auto c = static_cast<std::size_t>(channels);
      const Values rows = Host::read(table), gradients = Host::read(dx);
      Values expected(8 * c), expected_gradient(2 * c);
      for (std::size_t i = 0; i < c; ++i) {
        expected[2 * c + i] = rows[c + i];
        expected[3 * c + i] = expected[5 * c + i] = rows[i];
        expected_gradient[i] = gradients[3 * c + i] + gradients[5 * c + i];
        expected_gradient[c + i] = gradients[2 * c + i];
      }
      check_near(x, expected, tolerance_of(dtype));
      check_near(dtable, expected_gradient, tolerance_of(DType::f32));
    }
  });
}

BOOST_AUTO_TEST_CASE(embedding_backward_adds_in_ascending_token_order) {
  for (const int threads : {1, 2}) {
    Host host(threads);
    Values gradients(3 * 40, 1.0);
    std::fill_n(gradients.begin() + 40, 40, 0x1p24);  // swallows the 1 added before it
    std::fill_n(gradients.begin() + 80, 40, -0x1p24);
    const Tensor ids = host.ids({0, 0, 0}), dx = host.of(DType::f32, {3, 40}, gradients);
    const Tensor dtable = host.zeros(DType::f32, {1, 40});
    host.ops().embedding_backward(host.stream(), ids, dx, dtable);
    BOOST_TEST((Host::read(dtable) == Values(40, 0.0)));
  }
}

BOOST_AUTO_TEST_CASE(a_nan_is_not_hidden) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::size_t at : {0u, 15u, 16u, 39u}) {  // in a full vector and in a part of one
      Values values(2 * 40, 0.5);
      values[at] = kNan;
      const Tensor x = host.of(dtype, {2, 40}, values), y = host.output(dtype, {2, 40});
      const Tensor w = host.normal(DType::f32, {40}, "w"), dw = host.output(DType::f32, {40});
      const Tensor rstd = host.output(DType::f32, {2});
      host.ops().rms_norm(host.stream(), x, w, 1e-5f, 0, y, rstd);
      BOOST_TEST(std::isnan(Host::read(y)[0]));
      BOOST_TEST(!std::isnan(Host::read(y)[40]));
      const Tensor dx = host.output(dtype, {2, 40});
      host.ops().rms_norm_backward(host.stream(), x, y, w, 0, rstd, {}, dx, dw);
      BOOST_TEST(std::isnan(Host::read(dw)[at]));
      const Tensor half = host.output(dtype, {2, 20});
      host.ops().swiglu(host.stream(), x, half);
      BOOST_TEST(std::isnan(Host::read(half)[at % 20]));
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
