#pragma once

#include <cstdint>

#include "schedules/planner/machine_model.h"

namespace troupe::schedules {

/// A collective moves the whole once, or, as an all-reduce does, twice.
enum class Rounds { gather = 1, reduce = 2 };

/// How long operations take on a described machine, in seconds. `element_bytes` are those of the
/// type of computation, 2 or 4; `devices` compute at the same time. The machine outlives it.
class Operations {
 public:
  Operations(const MachineModel& machine, int element_bytes, int devices = 1);

  /// The product of (m x k) and (k x n), `batch` times. The slowest of its waves of tiles, for the
  /// best tile, and of its bytes; a result in float32 is added to what is there.
  double product(double m, double n, double k, double batch = 1) const;
  double weight_gradient(double rows, double columns, double tokens) const;
  /// `kernels` that read and write so many bytes in all.
  double stream(double bytes, int kernels = 1) const;
  /// Fused attention of so many FLOP.
  double attention(double flop, double share) const;
  /// A gather or a sum of `bytes` by `members` ranks, neighbours of which are `apart` ranks apart.
  double collective(Rounds rounds, int members, int apart, double bytes) const;
  /// A message to a rank of the same host, or of another one.
  double hop(double bytes, bool over_network) const;

  double flop_per_s() const { return peak_; }  ///< of a device that computes alone, at most
  const MachineModel& machine() const { return machine_; }
  double element_bytes() const { return element_bytes_; }

 private:
  double computing(double m, double n, double k, double batch) const;
  double measured(double m, double n, double k) const;
  double moving(double bytes) const;

  const MachineModel& machine_;
  double element_bytes_;
  double peak_;
  double share_;  ///< of the rates, which a device has
};

/// How many of a group's members share a host, if neighbours are `apart` ranks apart.
int members_on_host(const MachineModel& machine, int members, int apart);

}  // namespace troupe::schedules
