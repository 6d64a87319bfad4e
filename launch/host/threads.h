#pragma once

namespace troupe::launch {

/// Starts so many threads at the same time, and ends them again. Throws Error{unavailable} that
/// says how many the machine gave, and what it lacks for more. To be called before anything is
/// written or started, because libraries neither report a thread that they could not start nor
/// survive it.
void require_threads(int count);

}  // namespace troupe::launch
