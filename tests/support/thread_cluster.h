#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/topology/assembly.h"
#include "actors/worker/plan_runner.h"
#include "stages/token_data.h"

namespace troupe::test {

/// Tokens that follow from a formula.
class CountingTokens : public stages::TokenFile {
 public:
  explicit CountingTokens(std::int64_t vocab) : vocab_(vocab) {}
  const std::string& name() const override { return path_; }
  std::int64_t num_tokens() const override { return 4000; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto n = begin + static_cast<std::int64_t>(i);
      out[i] = static_cast<std::int32_t>((n * n / 7 + n) % vocab_);
    }
  }

 private:
  std::string path_ = "numbers that a test made";
  std::int64_t vocab_;
};

inline stages::DataFeed counting_feed(const actors::RunSpec& spec) {
  return {std::make_unique<CountingTokens>(spec.model.vocab_size),
          {.seq_len = spec.batch.seq_len,
           .micro = spec.batch.micro,
           .global = spec.batch.global,
           .replicas = spec.mesh.dp,
           .vocab_size = spec.model.vocab_size}};
}

/// Calls body(rank) on one thread per rank and waits for all of them. Rethrows the first exception.
inline void on_ranks(int ranks, const std::function<void(int)>& body) {
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace troupe::test
