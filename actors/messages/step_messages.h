#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

// What a stage tells of a step: its vote, and what monitors asked to see.

namespace troupe::actors {

/// The bits of a double, as it is sent.
using Bits = std::uint64_t;
inline Bits to_bits(double x) {
  return std::bit_cast<Bits>(x);
}
inline double to_double(Bits x) {
  return std::bit_cast<double>(x);
}

/// The vote: this rank's gradients of the step are complete.
struct Prepared {
  struct Sent {
    std::uint32_t to = 0;     ///< rank
    std::uint64_t bytes = 0;  ///< bytes sent in this step
  };
  struct Waited {
    std::uint32_t from = 0;  ///< rank
    Bits wait_s = 0;         ///< time spent waiting for messages of `from`
  };
  struct OfSource {
    Bits loss_sum = 0;
    std::int64_t targets = 0;  ///< in the rank's replica
  };
  /// stages::CollectiveReport
  struct Collectives {
    std::string group;
    std::string operation;
    int count = 0;
    std::int64_t bytes = 0;
    Bits time_s = 0;
    Bits exposed_s = 0;
  };
  /// stages::LargeBucket
  struct Large {
    int bucket = 0;
    Bits norm = 0;
  };
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int rank = 0;
  Bits loss_sum = 0;
  std::int64_t targets = 0;  ///< of the step in all replicas; 0: each token of joined samples
  /// The parts of loss_sum by source; none from ranks that do not tell them apart.
  std::vector<OfSource> sources;
  int bad_microbatch = -1;
  std::string bad_gradient;         ///< stages::DataParallel::not_finite()
  std::vector<Bits> squared_norms;  ///< of the parameters in Ready::parameters, in that order
  Bits busy_s = 0;
  Bits collective_s = 0;
  Bits wall_s = 0;
  std::uint64_t device_used = 0, device_total = 0;  ///< bytes of a GPU's memory; 0 on a CPU
  std::vector<Sent> sent;                           ///< one for each rank that it sends to
  std::vector<Waited> waited;                       ///< one for each rank that sends to it
  std::vector<Collectives> collectives;
  std::vector<Large> large;
};

/// The actions of one rank in one step, in order; a long step takes several messages.
struct TracedActions {
  struct Row {
    std::string name;
    Bits begin_s = 0;  ///< on the machine's monotonic clock
    Bits end_s = 0;
    Bits sent_s = 0;
    Bits busy_s = 0;  ///< time spent on this action, without the other one of a pair
    Bits collective_s =
        0;  ///< time in which it lacked a collective of the shards; no part of busy_s
    Bits waited_s = 0;
    int from = -1;
    int to = -1;
  };
  /// stages::CollectiveSpan
  struct Collective {
    std::string group;
    std::string operation;
    int bucket = 0;
    Bits begin_s = 0;
    Bits end_s = 0;
  };
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int rank = 0;
  std::vector<Row> rows;
  std::vector<Collective> collectives;  ///< that completed gradients beside these actions or later
  bool complete = false;                ///< these are the last actions of the step
};

/// The summary of a tensor that a TapRequest asked for, with the fields of TensorSummary.
struct Tapped {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int rank = 0;
  int to = 0;
  bool backward = false;
  int microbatch = 0;
  std::int64_t elements = 0;
  std::int64_t not_finite = 0;
  Bits norm = 0, mean = 0, min = 0, max = 0;
  std::vector<std::uint64_t> histogram;
  std::string file;   ///< path of the dump; empty: not dumped
  std::string error;  ///< why it could not be dumped; empty: no error
};

/// ValueHistogram of parts of weights and gradients, each of a tensor of the model's files.
struct ParameterHistograms {
  static constexpr int kBins = 512;  ///< of magnitudes
  struct Row {
    std::string tensor;
    bool is_gradient = false;
    std::int64_t whole = 0;  ///< elements of the whole tensor
    std::int64_t elements = 0;
    std::int64_t not_finite = 0;
    Bits min = 0, max = 0, sum = 0, squares = 0;
    std::vector<std::int32_t> bins;  ///< those that are not empty
    std::vector<std::uint64_t> counts;
  };
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int rank = 0;
  std::vector<Row> rows;
};

}  // namespace troupe::actors
