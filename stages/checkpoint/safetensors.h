#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/storage/xxh64.h"
#include "tensor/tensor.h"

// safetensors files: a u64 header length N, N bytes of JSON, the tensors' bytes (stages/README.md).

namespace troupe::stages {

/// Longest header that is written or read, in bytes.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Where a tensor lies. Offsets count from the first byte after the header.
struct TensorEntry {
  std::string name;
  std::string dtype;  ///< as the file spells it: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t num_bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON of a header whose file has `data_bytes` bytes after it. Throws Error{data} with
/// the broken rule: tensors must have known dtypes and fill the data in order, without gaps,
/// overlaps or bytes left.
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

  /// Copies a tensor of tensors() to `out`, which has its size. If the file's metadata holds the
  /// tensor's XXH64, as write_safetensors leaves it, bytes that do not match are an Error{data}
  /// naming file and tensor.
  void read(const TensorEntry& entry, std::span<std::byte> out) const;
  /// Checks the bytes of every tensor that has an XXH64.
  void verify() const;

 private:
  void check_sum(const TensorEntry& entry, const Xxh64& sum) const;

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

/// Writes and syncs a file, each tensor straight from its memory and once more read for its XXH64,
/// which goes into the metadata as "xxh64:<name>". `written`, if given, grows by the bytes of each
/// tensor that is written. Tensors are ordered by dtype, as the reference implementation sorts,
/// then by name. Names must be unique. Throws Error{internal} with the path and the system's
/// reason.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       std::atomic<std::uint64_t>* written = nullptr);

}  // namespace troupe::stages
