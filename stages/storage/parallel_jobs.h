#pragma once

#include <cstddef>
#include <functional>

namespace troupe::stages {

/// Carries out one of the jobs, by its number.
using Job = std::function<void(std::size_t number)>;

/// Carries out jobs [0, count) on up to so many threads, the calling one among them; fewer if the
/// machine has no more. Jobs begin in ascending order. `make` is called once in each thread, for
/// what its jobs use in turn. After an exception no other job begins, and that of the lowest number
/// is thrown once all threads have ended.
void carry_out(int threads, std::size_t count, const std::function<Job()>& make);

}  // namespace troupe::stages
