#pragma once

namespace troupe::launch {

/// Makes sure that a launcher with so many workers can open what it will need. Raises the soft
/// limit of descriptors as far as the hard one allows, which workers inherit. Throws
/// Error{unavailable} that says how many there are, and which limit would do. To be called before
/// anything is written or started, because libraries do not survive a lack of descriptors.
void require_descriptors(int workers);

}  // namespace troupe::launch
