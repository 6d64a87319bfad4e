#pragma once

#include <string>

#include "stages/files/safetensors/safetensors.h"

// The checksums of tensors and of their regions in a file's metadata.

namespace troupe::stages {

/// Stands in a file for the checksum of a region that is not written yet. It is as long as one.
inline constexpr const char* kUnsetSum = "----------------";

/// A tensor's region as keys and errors spell it: "<name>[<row>:<rows>,<column>:<columns>]", or the
/// name alone if the region is the whole.
std::string region_name(const std::string& tensor, const tensor::Region& region,
                        const tensor::Region& whole);
/// Key of the checksum with this region_name() in the metadata.
std::string sum_key(const std::string& region_name);

/// Gives each tensor of the header the checksums that the metadata holds of it. Throws Error{data}
/// naming a tensor whose regions do not divide it into bands of rows, or of columns, and these the
/// other way, without gaps.
void attach_sums(SafetensorsHeader& header);

}  // namespace troupe::stages
