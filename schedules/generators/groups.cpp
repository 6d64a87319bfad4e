#include "schedules/generators/groups.h"

#include <algorithm>

#include "schedules/generators/families.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

int rounds(int p, int m) {
  return std::max(1, m / p);
}

std::string check_rounds(std::string_view kind, int p, int m) {
  if (m % rounds(p, m) == 0) return {};
  int nearest = m - 1;
  while (nearest % rounds(p, nearest) != 0) --nearest;
  return concat(kind, " takes microbatches in ", rounds(p, m),
                " equal rounds of at least stages = ", p, ", but microbatches = ", m, " leaves ",
                m % rounds(p, m), "; the nearest valid number of microbatches below is ", nearest);
}

std::string check_sizes(std::string_view kind, int p, int m, int g) {
  const std::string wanted = concat(kind, " takes microbatches in groups of ", g, ", but ");
  if (g < p)
    return concat(wanted, "a group has at least one for each of ", counted(p, "stage"),
                  "; the nearest valid group size is ", p);
  const std::string found = concat(wanted, "microbatches = ", m);
  if (g > m && m >= p) return concat(found, "; the nearest valid group size is ", m);
  if (g > m) return concat(found, "; ", nearest_microbatches(m, g));
  if (m % g == 0 || m % g >= p) return {};
  return concat(found, " leaves ", m % g, " for the last one, neither none nor one for each of ",
                counted(p, "stage"), "; ", nearest_microbatches(m, g));
}

}  // namespace

int group_size(const ScheduleShape& shape) {
  if (shape.grouping == Grouping::in_rounds) {
    return shape.microbatches / rounds(shape.stages, shape.microbatches);
  }
  return shape.group_size == 0 ? shape.stages : shape.group_size;
}

std::vector<GroupEntry> grouped(const ScheduleShape& shape) {
  std::vector<GroupEntry> out;
  out.reserve(static_cast<std::size_t>(shape.microbatches) * shape.chunks);
  const int size = group_size(shape);
  for (int first = 0; first < shape.microbatches; first += size) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int i = first; i < std::min(first + size, shape.microbatches); ++i) {
        out.push_back({.local_chunk = chunk, .microbatch = i});
      }
    }
  }
  return out;
}

std::string check_groups(std::string_view kind, const ScheduleShape& shape) {
  if (shape.grouping == Grouping::in_rounds) {
    return check_rounds(kind, shape.stages, shape.microbatches);
  }
  return check_sizes(kind, shape.stages, shape.microbatches, group_size(shape));
}

}  // namespace troupe::schedules
