#include "launch/host/local_time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <ctime>

namespace troupe::launch {
namespace {

/// Whether a calendar of years with four digits has this moment.
bool is_date(double time) {
  return time > 0 && time < 2.5e11;
}

/// The moment in a zone that is so far ahead of UTC.
std::tm shifted(double time, long ahead_s) {
  return fmt::gmtime(static_cast<std::time_t>(time) + ahead_s);
}

}  // namespace

LocalTime::LocalTime(double at) {
  if (is_date(at)) ahead_s_ = fmt::localtime(static_cast<std::time_t>(at)).tm_gmtoff;
}

std::string LocalTime::zone() const {
  const long minutes = std::labs(ahead_s_) / 60;
  if (minutes == 0) return "UTC";
  return fmt::format("UTC{}{:02}:{:02}", ahead_s_ < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

std::string LocalTime::date(double time) const {
  return is_date(time) ? fmt::format("{:%Y-%m-%d %H:%M:%S}", shifted(time, ahead_s_)) : "-";
}

std::string LocalTime::clock(double time) const {
  return is_date(time) ? fmt::format("{:%H:%M:%S}", shifted(time, ahead_s_)) : "-";
}

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string time_text(double time) {
  const LocalTime local(time);
  return local.date(time) + " " + local.zone();
}

}  // namespace troupe::launch
