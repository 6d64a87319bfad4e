#include "tensor/parallel/megatron/mappings.h"

#include <numeric>

#include "tensor/errors/error.h"
#include "tests/tensor/shards.h"

// Every operator is linear, so that it is tested in two steps: the forward against what its name
// says, and the backward as the adjoint of the forward, sum <y, dy> = sum <x, dx>, for random dy.

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(mappings_test)

namespace {

constexpr std::size_t kN = 24, kC = 12;
using Counts = std::vector<std::int64_t>;

/// What an operator is called with: x has the rank-2 shape of the input, `out` that of the output.
struct Arguments {
  Stream& stream;
  ProcessGroup& group;
  Tensor x, out, scratch;
};

struct Operator {
  std::string name;
  bool one_x;   // all shards have the same x; else one each
  bool one_dy;  // all shards have the same gradient of y; else one each
  std::function<Shape(int n, int shard)> in, out;
  std::function<Tensor(const Arguments&)> forward, backward;
  std::function<Values(const std::vector<Values>& x, std::size_t shard)> expected;
};

Shape whole(int, int) {
  return {kN, kC};
}
Shape some_rows(int n, int) {
  return {static_cast<std::int64_t>(kN) / n, kC};
}
Shape some_columns(int n, int) {
  return {kN, static_cast<std::int64_t>(kC) / n};
}

/// Rows of each of n shards, some of them none.
Counts uneven_rows(int n) {
  const std::vector<Counts> rows{{24}, {5, 19}, {0, 7, 17}, {3, 0, 20, 1}};
  return rows[static_cast<std::size_t>(n) - 1];
}
Counts uneven_counts(int n) {
  Counts counts = uneven_rows(n);
  for (std::int64_t& count : counts) count *= kC;
  return counts;
}
Shape uneven(int n, int shard) {
  return {uneven_rows(n)[static_cast<std::size_t>(shard)], kC};
}

/// Rows that shard `from` sends to shard `to`.
std::int64_t sent_rows(int from, int to) {
  return (2 * from + 3 * to + 1) % 5;
}
Counts sent_by(int n, int shard) {
  Counts counts;
  for (int to = 0; to < n; ++to) counts.push_back(sent_rows(shard, to) * std::int64_t{kC});
  return counts;
}
Counts received_by(int n, int shard) {
  Counts counts;
  for (int from = 0; from < n; ++from) counts.push_back(sent_rows(from, shard) * std::int64_t{kC});
  return counts;
}
Shape of_counts(const Counts& counts) {
  return {std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) /
              static_cast<std::int64_t>(kC),
          kC};
}

Values shard_rows(const Values& x, std::size_t n, std::size_t shard) {
  return rows_of(x, kC, shard * kN / n, kN / n);
}
Values shard_columns(const Values& x, std::size_t n, std::size_t shard) {
  return columns_of(x, kC, shard * kC / n, kC / n);
}

std::vector<Operator> operators_on_all() {
  return {
      {"copy_to_tensor_parallel", true, false, whole, whole,
       [](const Arguments& a) { return copy_to_tensor_parallel(a.x); },
       [](const Arguments& a) { return copy_to_tensor_parallel_backward(a.stream, a.group, a.x); },
       [](const auto& x, std::size_t) { return x[0]; }},
      {"reduce_from_tensor_parallel", false, true, whole, whole,
       [](const Arguments& a) { return reduce_from_tensor_parallel(a.stream, a.group, a.x); },
       [](const Arguments& a) { return reduce_from_tensor_parallel_backward(a.x); },
       [](const auto& x, std::size_t) { return sum_of(x); }},
  };
}

std::vector<Operator> operators_on_columns() {
  return {
      {"scatter_to_tensor_parallel", true, false, whole, some_columns,
       [](const Arguments& a) { return scatter_to_tensor_parallel(a.stream, a.group, a.x, a.out); },
       [](const Arguments& a) {
         return scatter_to_tensor_parallel_backward(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const auto& x, std::size_t shard) { return shard_columns(x[0], x.size(), shard); }},
      {"gather_from_tensor_parallel", false, true, some_columns, whole,
       [](const Arguments& a) {
         return gather_from_tensor_parallel(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const Arguments& a) {
         return gather_from_tensor_parallel_backward(a.stream, a.group, a.x, a.out);
       },
       [](const auto& x, std::size_t) { return joined(x, kN); }},
      {"all_gather_last_dim", false, false, some_columns, whole,
       [](const Arguments& a) {
         return all_gather_last_dim(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const Arguments& a) {
         return all_gather_last_dim_backward(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const auto& x, std::size_t) { return joined(x, kN); }},
      {"reduce_scatter_last_dim", false, false, whole, some_columns,
       [](const Arguments& a) {
         return reduce_scatter_last_dim(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const Arguments& a) {
         return reduce_scatter_last_dim_backward(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const auto& x, std::size_t shard) { return shard_columns(sum_of(x), x.size(), shard); }},
  };
}

std::vector<Operator> operators_on_rows() {
  return {
      {"scatter_to_sequence_parallel", true, false, whole, some_rows,
       [](const Arguments& a) { return scatter_to_sequence_parallel(a.group, a.x); },
       [](const Arguments& a) {
         return scatter_to_sequence_parallel_backward(a.stream, a.group, a.x, a.out);
       },
       [](const auto& x, std::size_t shard) { return shard_rows(x[0], x.size(), shard); }},
      {"gather_from_sequence_parallel", false, false, some_rows, whole,
       [](const Arguments& a) {
         return gather_from_sequence_parallel(a.stream, a.group, a.x, a.out);
       },
       [](const Arguments& a) {
         return gather_from_sequence_parallel_backward(a.stream, a.group, a.x, a.out);
       },
       [](const auto& x, std::size_t) { return stacked(x); }},
      {"gather_from_sequence_parallel for replicated work", false, true, some_rows, whole,
       [](const Arguments& a) {
         return gather_from_sequence_parallel(a.stream, a.group, a.x, a.out);
       },
       [](const Arguments& a) {
         return gather_from_sequence_parallel_replicated_backward(a.group, a.x);
       },
       [](const auto& x, std::size_t) { return stacked(x); }},
      {"gather_from_sequence_parallel_uneven", false, false, uneven, whole,
       [](const Arguments& a) {
         return gather_from_sequence_parallel_uneven(a.stream, a.group, a.x, a.out,
                                                     uneven_counts(a.group.size()));
       },
       [](const Arguments& a) {
         return gather_from_sequence_parallel_uneven_backward(a.stream, a.group, a.x, a.out,
                                                              uneven_counts(a.group.size()));
       },
       [](const auto& x, std::size_t) { return stacked(x); }},
      {"reduce_scatter_to_sequence_parallel", false, false, whole, some_rows,
       [](const Arguments& a) {
         return reduce_scatter_to_sequence_parallel(a.stream, a.group, a.x, a.out);
       },
       [](const Arguments& a) {
         return reduce_scatter_to_sequence_parallel_backward(a.stream, a.group, a.x, a.out);
       },
       [](const auto& x, std::size_t shard) { return shard_rows(sum_of(x), x.size(), shard); }},
      {"reduce_scatter_to_sequence_parallel_uneven", false, false, whole, uneven,
       [](const Arguments& a) {
         return reduce_scatter_to_sequence_parallel_uneven(a.stream, a.group, a.x, a.out,
                                                           uneven_counts(a.group.size()));
       },
       [](const Arguments& a) {
         return reduce_scatter_to_sequence_parallel_uneven_backward(a.stream, a.group, a.x, a.out,
                                                                    uneven_counts(a.group.size()));
       },
       [](const auto& x, std::size_t shard) {
         const Counts rows = uneven_rows(static_cast<int>(x.size()));
         const auto before = std::accumulate(
             rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(shard), std::int64_t{0});
         return rows_of(sum_of(x), kC, static_cast<std::size_t>(before),
                        static_cast<std::size_t>(rows[shard]));
       }},
  };
}

std::vector<Operator> exchanges() {
  return {
      {"all_to_all", false, false, [](int n, int shard) { return of_counts(sent_by(n, shard)); },
       [](int n, int shard) { return of_counts(received_by(n, shard)); },
       [](const Arguments& a) {
         const int n = a.group.size(), shard = a.group.member();
         return all_to_all(a.stream, a.group, a.x, a.out, sent_by(n, shard), received_by(n, shard));
       },
       [](const Arguments& a) {
         const int n = a.group.size(), shard = a.group.member();
         return all_to_all_backward(a.stream, a.group, a.x, a.out, sent_by(n, shard),
                                    received_by(n, shard));
       },
       [](const auto& x, std::size_t shard) {
         std::vector<Values> parts;
         for (std::size_t from = 0; from < x.size(); ++from) {
           std::int64_t first = 0;
           for (std::size_t to = 0; to < shard; ++to)
             first += sent_rows(static_cast<int>(from), static_cast<int>(to));
           const auto rows = sent_rows(static_cast<int>(from), static_cast<int>(shard));
           parts.push_back(rows_of(x[from], kC, static_cast<std::size_t>(first),
                                   static_cast<std::size_t>(rows)));
         }
         return stacked(parts);
       }},
      {"all_to_all_sp2hp", false, false, some_rows, some_columns,
       [](const Arguments& a) {
         return all_to_all_sp2hp(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const Arguments& a) {
         return all_to_all_sp2hp_backward(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const auto& x, std::size_t shard) { return shard_columns(stacked(x), x.size(), shard); }},
      {"all_to_all_hp2sp", false, false, some_columns, some_rows,
       [](const Arguments& a) {
         return all_to_all_hp2sp(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const Arguments& a) {
         return all_to_all_hp2sp_backward(a.stream, a.group, a.x, a.scratch, a.out);
       },
       [](const auto& x, std::size_t shard) { return shard_rows(joined(x, kN), x.size(), shard); }},
  };
}

std::vector<Operator> all_operators() {
  std::vector<Operator> all = operators_on_all();
  for (const auto& more : {operators_on_columns(), operators_on_rows(), exchanges()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct Shard {
  Values x, y, dy, dx;
  bool moved_nothing = false;  // both results lie where the arguments lay
  std::map<std::string, Traffic> traffic;
};

Shard run(Host& host, ThreadGroup& group, const Operator& op) {
  const int n = group.size(), shard = group.member();
  const Shape in = op.in(n, shard), out = op.out(n, shard);
  const auto own = [&](bool one, const char* what) {
    return std::string(what) + (one ? "" : std::to_string(shard));
  };
  const Tensor x = host.normal(DType::f32, in, own(op.one_x, "x"));
  const Tensor dy = host.normal(DType::f32, out, own(op.one_dy, "dy"));
  Shard result{.x = Host::read(x), .y = {}, .dy = Host::read(dy), .dx = {}, .traffic = {}};
  const Tensor scratch =
      host.zeros(DType::f32,
                 {column_scratch_elements(group, std::max(in.num_elements(), out.num_elements()))});
  const Tensor y = op.forward({host.stream(), group, x, host.zeros(DType::f32, out), scratch});
  result.y = Host::read(y);
  const Tensor dx = op.backward({host.stream(), group, dy, host.zeros(DType::f32, in), scratch});
  result.dx = Host::read(dx);
  result.moved_nothing = y.data == x.data && dx.data == dy.data;
  result.traffic = group.traffic();
  return result;
}

/// The sum over the elements, and over the shards unless they all have the same.
double inner_product(const std::vector<Shard>& shards, bool one, Values Shard::*a,
                     Values Shard::*b) {
  double sum = 0;
  const std::size_t count = one ? 1 : shards.size();
  for (std::size_t i = 0; i < count; ++i)
    sum += std::inner_product((shards[i].*a).begin(), (shards[i].*a).end(), (shards[i].*b).begin(),
                              0.0);
  return sum;
}

BOOST_AUTO_TEST_CASE(forwards_do_what_they_say_and_backwards_are_their_adjoints) {
  for (const Operator& op : all_operators()) {
    BOOST_TEST_CONTEXT(op.name) {
      for_each_group([&](int size, Moves moves) {
        const auto shards = on_shards(
            size, moves, [&](Host& host, ThreadGroup& group) { return run(host, group, op); });
        const auto x = each(shards, &Shard::x);
        for (std::size_t i = 0; i < shards.size(); ++i)
          check_near(shards[i].y, op.expected(x, i), 1e-6);
        const double forward = inner_product(shards, op.one_dy, &Shard::y, &Shard::dy);
        const double backward = inner_product(shards, op.one_x, &Shard::x, &Shard::dx);
        BOOST_TEST(std::abs(forward - backward) <= 1e-4);
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(a_single_shard_neither_communicates_nor_copies) {
  for (const Operator& op : all_operators()) {
    BOOST_TEST_CONTEXT(op.name) {
      const auto shards = on_shards(
          1, Moves::at_call, [&](Host& host, ThreadGroup& group) { return run(host, group, op); });
      BOOST_TEST(shards[0].moved_nothing);
      BOOST_TEST(shards[0].traffic.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_flat_split_loses_no_element) {
  for_each_group([](int size, Moves moves) {
    const auto gathered = on_shards(size, moves, [](Host& host, ThreadGroup& group) {
      const Tensor x = host.normal(DType::f32, {3, 2, 4}, "x");
      const Tensor part = own_elements(group, x);
      const Tensor out = gather_rows(host.stream(), group, part, host.zeros(DType::f32, {24}));
      return std::pair(Host::read(x), Host::read(out));
    });
    for (const auto& [x, out] : gathered) BOOST_TEST(x == out);
  });
}

BOOST_AUTO_TEST_CASE(a_remainder_is_refused_and_not_dropped) {
  Host host(1);
  ThreadGroup group(std::make_shared<Meeting>(4), 3, Moves::at_call);
  const Tensor x = host.zeros(DType::f32, {10, 7}), out = host.zeros(DType::f32, {70});
  Stream& stream = host.stream();
  const auto says = [](const char* text) {
    return [=](const Error& error) { return std::string(error.what()).starts_with(text); };
  };
  BOOST_CHECK_EXCEPTION(own_elements(group, x), Error, says("70 elements cannot be divided"));
  BOOST_CHECK_EXCEPTION(own_rows(group, x), Error, says("10 rows cannot be divided"));
  BOOST_CHECK_EXCEPTION(own_columns(stream, group, x, out), Error, says("7 columns cannot"));
  BOOST_CHECK_EXCEPTION(reduce_scatter_columns(stream, group, x, out, out), Error,
                        says("7 columns cannot"));
  BOOST_CHECK_EXCEPTION(reduce_scatter_rows(stream, group, x, out), Error, says("10 rows cannot"));
  BOOST_CHECK_EXCEPTION(rows_to_columns(stream, group, x, out, out), Error,
                        says("7 columns cannot"));
  BOOST_CHECK_EXCEPTION(columns_to_rows(stream, group, x, out, out), Error, says("10 rows cannot"));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
