#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/files/safetensors/region_bytes.h"
#include "stages/storage/progress.h"
#include "tensor/values/region.h"
#include "tensor/values/tensor.h"

// safetensors files: a u64 header length N, N bytes of JSON, the tensors' bytes
// (stages/files/README.md).

namespace troupe::stages {

/// Longest header that is written or read, in bytes.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct SafetensorsDType {
  std::string_view name;
  std::uint64_t bits;  ///< of one element
};

/// The format's dtypes in the order of the reference implementation. Its writer sorts tensors by
/// it, the last dtype first.
inline constexpr std::array<SafetensorsDType, 22> kSafetensorsDTypes = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

/// All of a tensor with this shape and number of elements, as a matrix: a row for each index of the
/// first dim, or one row if there is none.
inline tensor::Region as_matrix(std::span<const std::int64_t> shape, std::int64_t elements) {
  const std::int64_t rows = shape.empty() ? 1 : shape.front();
  return {.rows = rows, .columns = elements > 0 ? elements / rows : 0};
}

/// The checksum of a region of a tensor: XXH64 of its bytes, row by row, in hexadecimal digits.
struct RegionSum {
  tensor::Region region;
  std::string sum;
};

/// Where a tensor lies. Offsets count from the first byte after the header.
struct TensorEntry {
  std::string name;
  std::string dtype;  ///< as the file spells it: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  /// All of the tensor as a matrix: a row for each index of the first dim, or one row if there is
  /// none. If elements are smaller than a byte, it is a matrix of bytes with one column.
  tensor::Region whole;
  std::uint64_t element_bytes = 0;  ///< of the matrix
  /// What has a checksum, in order: the whole, or the regions that divide it into bands.
  /// Empty if the file does not hold any of this tensor.
  std::vector<RegionSum> sums;

  std::uint64_t num_bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON of a header whose file has `data_bytes` bytes after it. Throws Error{data} with
/// the broken rule: tensors must have known dtypes and fill the data in order, without gaps,
/// overlaps or bytes left; checksums of regions must divide their tensor.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);

/// A file of which the header has been read and checked; the tensors are read on demand. Holds no
/// open file.
class SafetensorsFile {
 public:
  /// Throws Error{data} naming the file and the rule.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// XXH64 of everything that precedes the tensors' bytes.
  std::uint64_t header_sum() const { return header_sum_; }
  std::span<const TensorEntry> tensors() const { return header_.tensors; }

  /// Copies a region of a tensor of tensors(), as it is stored, to `out`, which has its size.
  /// Regions with a checksum that overlap it are read as a whole, through one buffer of
  /// kBlockBytes; bytes that do not match are an Error{data} naming file, tensor and region.
  void read(const TensorEntry& entry, const tensor::Region& wanted, std::span<std::byte> out) const;
  /// Reads a region of a tensor of a WeightDType as read() does, as float32 in this order. Narrower
  /// types are widened in a buffer of their own. An element that is no finite number is an
  /// Error{data}, too.
  void read_floats(const TensorEntry& entry, const tensor::Region& wanted, std::span<float> out,
                   Order order = Order::rows) const;
  /// Up to so many bytes from a tensor's begin, as they are: no checksum is compared.
  std::vector<std::byte> first_bytes(const TensorEntry& entry, std::size_t most) const;
  /// Checks the bytes of every tensor that has an XXH64, and reports them region by region.
  void verify(ProgressSum& verified) const;
  /// Does that for one region of a tensor of tensors(), in any thread.
  void verify(const TensorEntry& entry, const RegionSum& expected, ProgressSum& verified) const;
  /// The number of bytes that verify() reads.
  std::uint64_t bytes_with_sums() const;

 private:
  StoredMatrix matrix_of(const TensorEntry& entry) const;
  void read_blocks(const TensorEntry& entry, const tensor::Region& wanted,
                   const BlockUse& use) const;
  void check(const TensorEntry& entry, const RegionSum& expected, std::uint64_t sum) const;

  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  std::uint64_t data_offset_ = 0;
  std::uint64_t header_sum_ = 0;
  SafetensorsHeader header_;
};

struct NamedTensor {
  std::string name;
  tensor::Tensor tensor;  ///< in host memory
};

/// Writes and syncs a file, each tensor straight from its memory and with one checksum. Names must
/// be unique. Throws Error{internal} with the path and the system's reason.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);
class OutputFile;
/// Writes the whole content of an empty file.
void write_safetensors(OutputFile& file, const std::vector<NamedTensor>& tensors);

}  // namespace troupe::stages
