#pragma once

#include <ctime>
#include <string>

namespace troupe::stages {

/// Today in the time zone of this machine, as "2024-07-26".
std::string today();

/// The begin of such a day. Throws Error{data} for what is no day of a calendar.
std::tm begin_of_day(const std::string& date);

}  // namespace troupe::stages
