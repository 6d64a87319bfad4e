#include "launch/monitors/tfrecord.h"

#include <bit>
#include <boost/crc.hpp>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

namespace troupe::launch {
namespace {

template <typename Integer>
void append_little_endian(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

/// Writes a protocol-buffer message field by field. Classes that protoc generates would need a copy
/// of TensorFlow's definitions for the four messages that are written here.
class Message {
 public:
  Message& number(int field, std::uint64_t value) { return key(field, 0).varint(value); }
  Message& fixed(int field, double value) {
    key(field, 1);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& fixed(int field, float value) {
    key(field, 5);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  /// A packed field.
  Message& fixed(int field, const std::vector<double>& values) {
    std::string packed;
    for (const double value : values)
      append_little_endian(packed, std::bit_cast<std::uint64_t>(value));
    return text(field, packed);
  }
  Message& text(int field, std::string_view value) {
    key(field, 2).varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  std::string take() { return std::move(bytes_); }

 private:
  Message& key(int field, int wire_type) {
    return varint(static_cast<std::uint64_t>(field << 3 | wire_type));
  }
  Message& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  std::string bytes_;
};

// Field numbers of TensorFlow's messages.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr int kStatus = 1;
constexpr std::uint64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr int kValue = 1;
}
namespace value {
constexpr int kTag = 1, kSimpleValue = 2, kHistogram = 5, kTensor = 8, kMetadata = 9;
}
namespace histogram {
constexpr int kMin = 1, kMax = 2, kCount = 3, kSum = 4, kSquares = 5, kEnds = 6, kCounts = 7;
}
namespace metadata {
constexpr int kPluginData = 1, kPluginName = 1;
}
namespace tensor_proto {
constexpr int kDType = 1, kShape = 2, kStringValues = 8, kShapeDim = 2, kDimSize = 1;
constexpr std::uint64_t kString = 7;
}  // namespace tensor_proto

std::string summary_event(double wall_time, std::int64_t step, const Message& value) {
  return Message{}
      .fixed(event::kWallTime, wall_time)
      .number(event::kStep, static_cast<std::uint64_t>(step))
      .message(event::kSummary, Message{}.message(summary::kValue, value))
      .take();
}

/// The lower end of a bin, side -1, or its upper end, side 1.
double end_of(int bin, int side) {
  using actors::ValueHistogram;
  if (bin == 0) return side * ValueHistogram::lower_end(1);
  const int outer = (bin < 0) == (side < 0) ? 1 : 0;  // away from zero
  return std::copysign(ValueHistogram::lower_end(std::abs(bin) + outer), bin);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string to_record(std::string_view data) {
  std::string out;
  append_little_endian(out, std::uint64_t{data.size()});
  append_little_endian(out, masked_crc32c(out));
  out.append(data);
  append_little_endian(out, masked_crc32c(data));
  return out;
}

std::string version_event(double wall_time) {
  return Message{}
      .fixed(event::kWallTime, wall_time)
      .text(event::kFileVersion, "brain.Event:2")
      .take();
}

std::string session_start_event(double wall_time, std::int64_t step) {
  return Message{}
      .fixed(event::kWallTime, wall_time)
      .number(event::kStep, static_cast<std::uint64_t>(step))
      .message(event::kSessionLog, Message{}.number(session_log::kStatus, session_log::kStart))
      .take();
}

std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value) {
  return summary_event(wall_time, step,
                       Message{}.text(value::kTag, tag).fixed(value::kSimpleValue, value));
}

std::string histogram_event(double wall_time, std::int64_t step, std::string_view tag,
                            const actors::ValueHistogram& values) {
  // Upper ends of the buckets, each the lower end of the next one, and what is in them.
  std::vector<double> ends, counts;
  const auto add = [&](double end, double count) {
    ends.push_back(end);
    counts.push_back(count);
  };
  for (const auto& [bin, count] : values.counts) {
    const double begin = end_of(bin, -1);
    if (!ends.empty() && ends.back() < begin) add(begin, 0);
    add(end_of(bin, 1), static_cast<double>(count));
  }
  const auto content =
      Message{}
          .fixed(histogram::kMin, values.min)
          .fixed(histogram::kMax, values.max)
          .fixed(histogram::kCount, static_cast<double>(values.elements - values.not_finite))
          .fixed(histogram::kSum, values.sum)
          .fixed(histogram::kSquares, values.squares)
          .fixed(histogram::kEnds, ends)
          .fixed(histogram::kCounts, counts);
  return summary_event(wall_time, step,
                       Message{}.text(value::kTag, tag).message(value::kHistogram, content));
}

std::string text_event(double wall_time, std::int64_t step, std::string_view tag,
                       std::string_view text) {
  const auto plugin =
      Message{}.message(metadata::kPluginData, Message{}.text(metadata::kPluginName, "text"));
  const auto shape =
      Message{}.message(tensor_proto::kShapeDim, Message{}.number(tensor_proto::kDimSize, 1));
  const auto content = Message{}
                           .number(tensor_proto::kDType, tensor_proto::kString)
                           .message(tensor_proto::kShape, shape)
                           .text(tensor_proto::kStringValues, text);
  return summary_event(wall_time, step,
                       Message{}
                           .text(value::kTag, std::string(tag) + "/text_summary")
                           .message(value::kTensor, content)
                           .message(value::kMetadata, plugin));
}

}  // namespace troupe::launch
