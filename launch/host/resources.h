#pragma once

// What a launcher will need of the machine. To be called before anything is written or started,
// because libraries do not survive a lack of these.

namespace troupe::launch {

/// Makes sure that a launcher with so many workers can open what it will need. Raises the soft
/// limit of descriptors as far as the hard one allows, which workers inherit. Throws
/// Error{unavailable} that says how many there are, and which limit would do.
void require_descriptors(int workers);

/// Starts so many threads at the same time, and ends them again. Throws Error{unavailable} that
/// says how many the machine gave, and what it lacks for more.
void require_threads(int count);

}  // namespace troupe::launch
