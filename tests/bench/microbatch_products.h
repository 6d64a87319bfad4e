#pragma once

#include "tests/bench/product_list.h"
#include "tests/bench/workload.h"

namespace troupe::bench {

/// The matrix products that one microbatch of a training step takes on one rank that holds the
/// whole model, in the step's order: what would remain if everything but oneDNN's products took no
/// time. Weights are packed for both orientations, every layer keeps activations of its own,
/// gradients pass through shared buffers, and attention works in blocks of query rows over the
/// causal part.
ProductList microbatch_products(const Workload& workload);

}  // namespace troupe::bench
