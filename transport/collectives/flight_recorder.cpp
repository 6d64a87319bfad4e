#include "transport/collectives/flight_recorder.h"

#include <algorithm>

namespace troupe::transport {

void OperationRecord::set_group(std::string_view name) {
  group = {};
  std::ranges::copy(name.substr(0, group.size() - 1), group.begin());
}

std::uint64_t FlightRecorder::add(const OperationRecord& record) {
  ring_[next_ % kRecords] = record;
  return next_++;
}

OperationRecord* FlightRecorder::find(std::uint64_t number) {
  const bool is_kept = number < next_ && next_ - number <= kRecords;
  return is_kept ? &ring_[number % kRecords] : nullptr;
}

std::vector<OperationRecord> FlightRecorder::records() const {
  std::vector<OperationRecord> records;
  for (std::uint64_t i = next_ > kRecords ? next_ - kRecords : 0; i < next_; ++i)
    records.push_back(ring_[i % kRecords]);
  return records;
}

}  // namespace troupe::transport
