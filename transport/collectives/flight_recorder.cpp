#include "transport/collectives/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "transport/collectives/collective.h"

namespace troupe::transport {
namespace {

std::uint64_t elements_of(std::span<const tensor::Tensor> row) {
  std::uint64_t elements = 0;
  for (const tensor::Tensor& x : row) elements += static_cast<std::uint64_t>(x.num_elements());
  return elements;
}

}  // namespace

const char* name_of(tensor::Reduction reduction) {
  constexpr std::array kNames{"sum", "maximum", "average"};
  return kNames[static_cast<std::size_t>(reduction)];
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void OperationRecord::set_group(std::string_view name) {
  group = {};
  std::ranges::copy(name.substr(0, group.size() - 1), group.begin());
}

void OperationRecord::set_call(const tensor::CollectiveCall& call) {
  const auto input = call.in.empty() ? call.out : call.in;
  operation = call.operation;
  reduction = call.reduction;
  if (!input.empty()) dtype = input.front().dtype;
  elements = elements_of(input);
  // Members may give a gather, or get of a scatter, as much as they like.
  alike = operation == Operation::all_gather   ? elements_of(call.out)
          : operation == Operation::all_to_all ? 0
                                               : elements;
}

bool OperationRecord::fits(const OperationRecord& other) const {
  return operation == other.operation && dtype == other.dtype && alike == other.alike &&
         (!reduces(operation) || reduction == other.reduction);
}

std::string call_text(const OperationRecord& record) {
  const std::string reduction =
      reduces(record.operation) ? fmt::format(" ({})", name_of(record.reduction)) : "";
  return fmt::format("{} of {} {}{}", name_of(record.operation), record.alike,
                     name_of(record.dtype), reduction);
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
