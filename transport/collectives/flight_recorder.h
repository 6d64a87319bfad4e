#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/device/process_group.h"
#include "tensor/values/dtype.h"

namespace troupe::transport {

/// "sum".
const char* name_of(tensor::Reduction reduction);
/// Seconds since 1970, as records have them.
double unix_time();

/// One collective that this process has called.
struct OperationRecord {
  std::uint32_t configuration = 0;
  std::array<char, 64> group{};  ///< the group's name, cut to fit, with a zero at its end
  std::uint64_t sequence = 0;    ///< number of the collective in its group
  tensor::Operation operation = tensor::Operation::barrier;
  tensor::Reduction reduction = tensor::Reduction::sum;
  tensor::DType dtype = tensor::DType::f32;
  std::uint64_t elements = 0;  ///< of the input
  std::uint64_t alike = 0;     ///< elements that are as many at all members; 0: none are
  /// The device's own group carries it. When that has ended nobody tells.
  bool by_device = false;
  double started_s = 0;   ///< Unix time
  double finished_s = 0;  ///< Unix time; 0: not finished
  /// The first few ranks that it still waited for when its group ended.
  boost::container::static_vector<int, 8> missing{};

  void set_group(std::string_view name);
  /// Operation, type and sizes; the input of one that is in place may be given as the output alone.
  void set_call(const tensor::CollectiveCall& call);
  /// Whether members may call the one and the other as the same collective.
  bool fits(const OperationRecord& other) const;
};
/// "all-reduce of 10 float32 (sum)", with the elements that are alike.
std::string call_text(const OperationRecord& record);

/// The last collectives of a process, in fixed memory: recording allocates nothing. Has no lock.
class FlightRecorder {
 public:
  static constexpr std::size_t kRecords = 256;

  /// Adds a record in place of the oldest one. Returns its number.
  std::uint64_t add(const OperationRecord& record);
  /// A record by its number; null if it has been replaced.
  OperationRecord* find(std::uint64_t number);
  /// All records, the oldest first.
  std::vector<OperationRecord> records() const;

 private:
  std::vector<OperationRecord> ring_ = std::vector<OperationRecord>(kRecords);
  std::uint64_t next_ = 0;
};

}  // namespace troupe::transport
