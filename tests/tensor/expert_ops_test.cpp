#include <set>

#include "tests/tensor/routed.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(expert_ops_test)

namespace {

/// Rows in the order of their experts.
struct Sorted {
  Sorted(Host& host, const Ints& of, std::int64_t each, std::int64_t experts)
      : chosen(host.ids(of)),
        weights(host.normal(DType::f32, {static_cast<std::int64_t>(of.size())}, "weights")),
        offsets(host.output(DType::i32, {experts + 1})) {
    const auto rows = static_cast<std::int64_t>(of.size());
    chosen.shape = Shape{rows / each, each};
    row_of = host.output(DType::i32, {rows / each, each});
    token_of = host.output(DType::i32, {rows});
    row_weights = host.output(DType::f32, {rows});
    host.ops().sort_rows(host.stream(), chosen, weights, offsets, row_of, token_of, row_weights);
  }
  Tensor chosen, weights, offsets, row_of, token_of, row_weights;
};

/// Choices of `each` experts in ascending order for every token.
Ints random_choices(std::int64_t tokens, std::int64_t each, std::int64_t experts) {
  Ints chosen;
  const Random random(11, "choices");
  for (std::uint64_t word = 0; static_cast<std::int64_t>(chosen.size()) < tokens * each;) {
    std::set<std::int32_t> own;
    while (static_cast<std::int64_t>(own.size()) < each)
      own.insert(static_cast<std::int32_t>(random.word(word++) % experts));
    chosen.insert(chosen.end(), own.begin(), own.end());
  }
  return chosen;
}

BOOST_AUTO_TEST_CASE(rows_are_sorted_by_expert_and_within_it_by_token) {
  for_each_setup([](DType, Host& host) {
    struct Case {
      Ints chosen;
      std::int64_t each, experts;
    };
    const std::vector<Case> cases = {{{0}, 1, 1},
                                     {{3, 3, 3, 3, 3}, 1, 5},     // one has all
                                     {{0, 4, 0, 4, 2, 4}, 2, 6},  // some have none
                                     {random_choices(700, 3, 17), 3, 17},
                                     {random_choices(130, 8, 128), 8, 128}};
    for (const auto& [chosen, each, experts] : cases) {
      const Sorted sorted(host, chosen, each, experts);
      const Ints offsets = ints_of(sorted.offsets), row_of = ints_of(sorted.row_of);
      const Ints token_of = ints_of(sorted.token_of);
      const Values weights = Host::read(sorted.weights), of_rows = Host::read(sorted.row_weights);
      std::size_t row = 0;
      for (std::int32_t e = 0; e < experts; ++e) {
        BOOST_TEST(offsets[static_cast<std::size_t>(e)] == static_cast<std::int32_t>(row));
        for (std::size_t i = 0; i < chosen.size(); ++i) {
          if (chosen[i] != e) continue;
          BOOST_TEST(row_of[i] == static_cast<std::int32_t>(row));
          BOOST_TEST(token_of[row] == static_cast<std::int32_t>(i) / each);
          BOOST_TEST(of_rows[row] == weights[i]);
          ++row;
        }
      }
      BOOST_TEST(offsets.back() == static_cast<std::int32_t>(chosen.size()));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_call_without_rows_changes_nothing_but_offsets) {
  for_each_setup([](DType dtype, Host& host) {
    const Sorted sorted(host, {}, 2, 3);
    BOOST_TEST(ints_of(sorted.offsets) == (Ints{0, 0, 0, 0}), boost::test_tools::per_element());
    const Tensor x = host.normal(dtype, {4, 6}, "x"), none = host.zeros(dtype, {0, 6});
    const Tensor rows = host.zeros(DType::i32, {0}), no_tokens = host.zeros(DType::i32, {0, 2});
    const Tensor numbers = host.zeros(DType::f32, {0}), gate_up = host.zeros(dtype, {0, 12});
    host.ops().gather_rows(host.stream(), x, rows, none);
    host.ops().sum_rows(host.stream(), x, no_tokens, none);
    host.ops().weighted_swiglu(host.stream(), gate_up, numbers, none);
    host.ops().weighted_swiglu_backward(host.stream(), gate_up, numbers, none, gate_up, numbers);
    Host::bytes_of(x);
  });
}

BOOST_AUTO_TEST_CASE(rows_are_gathered_and_added_in_the_order_of_experts) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t columns : {1, 7, 16, 200}) {
      const std::int64_t tokens = 90, each = 3, rows = tokens * each;
      const Sorted sorted(host, random_choices(tokens, each, 9), each, 9);
      const Tensor x = host.normal(dtype, {tokens, columns}, "x");
      const Tensor gathered = host.output(dtype, {rows, columns});
      host.ops().gather_rows(host.stream(), x, sorted.token_of, gathered);
      const Values from = Host::read(x), of_rows = Host::read(gathered);
      const Ints token_of = ints_of(sorted.token_of), row_of = ints_of(sorted.row_of);
      const auto width = static_cast<std::size_t>(columns);
      for (std::size_t r = 0; r < token_of.size(); ++r)
        for (std::size_t c = 0; c < width; ++c)
          BOOST_REQUIRE_EQUAL(of_rows[r * width + c],
                              from[static_cast<std::size_t>(token_of[r]) * width + c]);
      const Tensor values = host.normal(dtype, {rows, columns}, "values");
      const Tensor residual = host.normal(dtype, {tokens, columns}, "residual");
      const Tensor y = host.output(dtype, {tokens, columns});
      host.ops().sum_rows(host.stream(), values, sorted.row_of, y);
      const Values terms = Host::read(values), added = Host::read(residual);
      // float32 sums in this order, then one rounding: to the bit.
      const auto sums = [&](bool with_residual) {
        Values all;
        for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
          for (std::size_t c = 0; c < width; ++c) {
            float sum = 0;
            for (std::size_t k = 0; k < 3; ++k) {
              const auto row = static_cast<std::size_t>(row_of[3 * t + k]);
              sum += static_cast<float>(terms[row * width + c]);
            }
            if (with_residual) sum += static_cast<float>(added[t * width + c]);
            all.push_back(dtype == DType::f32 ? sum : to_float(to_bfloat16(sum)));
          }
        }
        return all;
      };
      BOOST_TEST((Host::read(y) == sums(false)));
      host.ops().sum_rows(host.stream(), values, sorted.row_of, residual, residual);
      BOOST_TEST((Host::read(residual) == sums(true)));
    }
  });
}

BOOST_AUTO_TEST_CASE(weights_of_rows_return_to_their_choices) {
  for_each_setup([](DType, Host& host) {
    const Sorted sorted(host, random_choices(40, 2, 5), 2, 5);
    const Tensor of_choices = host.output(DType::f32, {80, 1});
    Tensor of_rows = sorted.row_weights, row_of = sorted.row_of;
    of_rows.shape = Shape{80, 1};
    row_of.shape = Shape{80};
    host.ops().gather_rows(host.stream(), of_rows, row_of, of_choices);
    BOOST_TEST((Host::read(of_choices) == Host::read(sorted.weights)));
  });
}

BOOST_AUTO_TEST_CASE(weighted_swiglu_is_swiglu_times_a_number_for_each_row) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {3, 17}, {70, 33}, {9, 768}}) {
      const Tensor gate_up = host.normal(dtype, {rows, 2 * width}, "gate_up");
      const Tensor weights = host.normal(DType::f32, {rows}, "weights");
      const Tensor dy = host.normal(dtype, {rows, width}, "dy");
      const Tensor y = host.output(dtype, {rows, width});
      const Tensor dgate_up = host.output(dtype, {rows, 2 * width});
      const Tensor dweights = host.output(DType::f32, {rows});
      host.ops().weighted_swiglu(host.stream(), gate_up, weights, y);
      host.ops().weighted_swiglu_backward(host.stream(), gate_up, weights, dy, dgate_up, dweights);
      const auto count = static_cast<std::size_t>(rows), columns = static_cast<std::size_t>(width);
      const Values factors = Host::read(weights);
      Values expected = reference::swiglu(Host::read(gate_up), count, columns);
      Values gradient = Host::read(dy), dots(count);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        dots[i / columns] += gradient[i] * expected[i];
        expected[i] *= factors[i / columns];
        gradient[i] *= factors[i / columns];
      }
      check_near(y, expected, tolerance_of(dtype));
      check_near(dweights, dots, 4e-6);
      check_near(dgate_up,
                 reference::swiglu_backward(Host::read(gate_up), gradient, count, columns),
                 tolerance_of(dtype));
      host.ops().weighted_swiglu_backward(host.stream(), gate_up, weights, dy, gate_up, weights);
      BOOST_TEST(same_bits(gate_up, dgate_up));
      BOOST_TEST(same_bits(weights, dweights));
    }
  });
}

// What the ops promise beside: the same bits for any number of threads.
BOOST_AUTO_TEST_CASE(threads_do_not_change_the_ops_of_experts) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [&](int variant) {
      Host host(variant);
      const RouterShape router{.experts = 60, .chosen = 4};
      const Routed r(host, 301, router);
      const Tensor dweights = host.normal(DType::f32, {301, 4}, "dweights");
      const Tensor dlogits = host.output(DType::f32, {301, 60});
      host.ops().route_backward(host.stream(), r.probs, r.chosen, r.weights, dweights, router, {},
                                dlogits);
      const Tensor load = host.output(DType::f32, {123});
      host.ops().router_load(host.stream(), r.probs, r.chosen, r.lse, {}, load);
      const Tensor gate_up = host.normal(dtype, {301, 2 * 95}, "gate_up");
      const Tensor dy = host.normal(dtype, {301, 95}, "dy"), numbers = r.lse;
      host.ops().weighted_swiglu_backward(host.stream(), gate_up, numbers, dy, gate_up, numbers);
      return host.hash_of_memory();
    };
    const std::uint64_t one = run(1);
    BOOST_TEST(run(2) == one);
    BOOST_TEST(run(3) == one);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
