#pragma once

#include <exception>
#include <optional>
#include <thread>

#include "tensor/parallel/tensor_parallel.h"
#include "tests/tensor/host.h"
#include "tests/tensor/thread_group.h"

// Shards of a stage as threads, each with a device of its own, and how a whole matrix is divided
// among them.

namespace troupe::tensor {

/// What the layers of a member of these groups know of the others.
inline TensorParallel shards_of(const TensorParallelGroups& groups,
                                bool sequence_parallel = false) {
  return {.size = groups.forward->size(),
          .shard = groups.forward->member(),
          .sequence_parallel = sequence_parallel,
          .groups = &groups};
}

/// Calls body(host, group) in `size` threads, one per member, and returns what they returned in
/// member order. An exception of one member ends the group and is thrown again. Nothing in a body
/// may use Boost.Test, which serves one thread.
template <typename Body>
auto on_shards(int size, Moves moves, const Body& body) {
  using Result = decltype(body(std::declval<Host&>(), std::declval<ThreadGroup&>()));
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::optional<Result>> results(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> faults(results.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < results.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          Host host(1);
          ThreadGroup group(meeting, static_cast<int>(i), moves);
          results[i] = body(host, group);
        } catch (const std::exception& fault) {
          faults[i] = std::current_exception();
          meeting->abort(fault.what());
        }
      });
    }
  }
  for (const std::exception_ptr& fault : faults)
    if (fault) std::rethrow_exception(fault);
  std::vector<Result> out;
  for (std::optional<Result>& result : results) out.push_back(std::move(*result));
  return out;
}

/// Calls body(size, moves) for 1 to 4 shards and both times at which data may move.
template <typename Body>
void for_each_group(const Body& body) {
  for (int size = 1; size <= 4; ++size) {
    for (const Moves moves : {Moves::at_call, Moves::at_wait}) {
      BOOST_TEST_CONTEXT(size << " shards, data moves "
                              << (moves == Moves::at_call ? "at the call" : "at the wait")) {
        body(size, moves);
      }
    }
  }
}

/// Random numbers that follow from `name`, rounded to dtype.
inline Values normal_values(DType dtype, std::size_t count, std::string_view name) {
  Host host(1);
  return Host::read(host.normal(dtype, {static_cast<std::int64_t>(count)}, name));
}

inline Tensor tensor_of(Host& host, DType dtype, Shape shape, const Values& values) {
  const Tensor x = host.zeros(dtype, shape);
  BOOST_ASSERT(x.num_elements() == static_cast<std::int64_t>(values.size()));
  Host::write(values, x);
  return x;
}

/// Rows [first, first + count) of a matrix of `columns` columns.
inline Values rows_of(const Values& x, std::size_t columns, std::size_t first, std::size_t count) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first * columns);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * columns)};
}

/// Columns [first, first + count) of a matrix of `columns` columns.
inline Values columns_of(const Values& x, std::size_t columns, std::size_t first,
                         std::size_t count) {
  Values part;
  for (std::size_t row = 0; row < x.size(); row += columns) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row + first);
    part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return part;
}

/// One member of every shard's result.
template <typename Shard>
std::vector<Values> each(const std::vector<Shard>& shards, Values Shard::*member) {
  std::vector<Values> parts;
  for (const Shard& shard : shards) parts.push_back(shard.*member);
  return parts;
}

/// The sum of the parts, element by element.
inline Values sum_of(const std::vector<Values>& parts) {
  Values sum(parts.front().size());
  for (const Values& part : parts)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  return sum;
}

/// The parts one below the other.
inline Values stacked(const std::vector<Values>& parts) {
  Values all;
  for (const Values& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Parts of `rows` rows side by side.
inline Values joined(const std::vector<Values>& parts, std::size_t rows) {
  Values all;
  for (std::size_t row = 0; row < rows; ++row) {
    for (const Values& part : parts) {
      const std::size_t columns = part.size() / rows;
      const auto begin = part.begin() + static_cast<std::ptrdiff_t>(row * columns);
      all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(columns));
    }
  }
  return all;
}

}  // namespace troupe::tensor
