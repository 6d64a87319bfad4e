#pragma once

#include <string>

#include "schedules/plan/action.h"

namespace troupe::launch {

/// Fills that differ by lines in addition to their colours, as definitions that a page needs once.
std::string fill_patterns();

/// The fill of a kind of action, as an attribute.
std::string fill_of(schedules::Op op);
/// The fill of the n-th part of a bar.
std::string fill_of_part(std::size_t n);

}  // namespace troupe::launch
