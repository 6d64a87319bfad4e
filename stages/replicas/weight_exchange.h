#pragma once

#include "stages/replicas/data_parallel.h"

namespace troupe::stages {

/// How a replica comes by the weights that others update: the functions of DataParallel that are
/// about weights. All replicas call them in the same order.
class WeightExchange {
 public:
  virtual ~WeightExchange() = default;
  /// Forgets the collectives of the step before.
  virtual void begin_step() = 0;
  virtual void expect(const UnitOrder& order) = 0;
  virtual void share() = 0;
  virtual void complete() = 0;
  virtual void progress() = 0;
  virtual const tensor::Work* awaited(Pass pass, const NodeEffects& node) = 0;
  virtual double open(Pass pass, const NodeEffects& node) = 0;
};

}  // namespace troupe::stages
