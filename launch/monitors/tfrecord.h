#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actors/monitors/value_histogram.h"

namespace troupe::launch {

// The files that TensorBoard reads: records of protocol-buffer messages
// (tensorflow/core/util/event.proto, framework/summary.proto), each framed as
//   length (8 bytes), masked crc of the length (4), data, masked crc of the data (4)
// little-endian throughout.

/// The CRC-32C (Castagnoli) of some bytes.
std::uint32_t crc32c(std::string_view bytes);
/// The crc as TFRecord files keep it: rotated right by 15 bits, plus a constant.
std::uint32_t masked_crc32c(std::string_view bytes);
/// A record with its frame around `data`.
std::string to_record(std::string_view data);

/// The message that every file begins with.
std::string version_event(double wall_time);
/// The message of a session that begins at `step`: a reader forgets what it has read of this step
/// and of later ones, which are computed again.
std::string session_start_event(double wall_time, std::int64_t step);
/// A message with one number of a step. Infinities and NaN are kept.
std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value);
/// A message with the histogram of a tensor in a step: its buckets between the lowest and the
/// highest one that is not empty, with one for each gap.
std::string histogram_event(double wall_time, std::int64_t step, std::string_view tag,
                            const actors::ValueHistogram& histogram);
/// A message with a text of a step, for TensorBoard's text plugin.
std::string text_event(double wall_time, std::int64_t step, std::string_view tag,
                       std::string_view text);

}  // namespace troupe::launch
