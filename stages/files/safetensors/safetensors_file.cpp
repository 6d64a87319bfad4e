#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "stages/files/safetensors/finite_values.h"
#include "stages/files/safetensors/region_bytes.h"
#include "stages/files/safetensors/region_sums.h"
#include "stages/files/safetensors/safetensors.h"
#include "stages/files/safetensors/weight_dtype.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

using tensor::Region;

namespace {

std::uint64_t bytes_of(const TensorEntry& entry, const RegionSum& sum) {
  return static_cast<std::uint64_t>(sum.region.num_elements()) * entry.element_bytes;
}

constexpr std::uint64_t kLengthBytes = 8;

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  const auto refuse = [&path](const std::string& why) {
    return data_error("{}: not a complete safetensors file: {}", path.string(), why);
  };
  const InputFile input = InputFile::open(path);
  if (input.size() < kLengthBytes)
    throw refuse(fmt::format("{} bytes, the length of its header alone has 8", input.size()));
  std::uint64_t length = 0;
  input.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeaderBytes)
    throw refuse(
        fmt::format("a header of {} bytes, at most {} are allowed", length, kMaxHeaderBytes));
  if (length > input.size() - kLengthBytes)
    throw refuse(
        fmt::format("its header of {} bytes goes beyond its {} bytes", length, input.size()));

  SafetensorsFile file;
  file.path_ = path;
  file.size_ = input.size();
  file.data_offset_ = kLengthBytes + length;
  std::string head(file.data_offset_, '\0');
  input.read(0, std::as_writable_bytes(std::span(head)));
  file.header_sum_ = xxh64(head);
  std::ranges::replace(head, '\0', kUnsetSum[0]);  // checksums that nobody has written
  try {
    file.header_ = parse_safetensors_header(std::string_view(head).substr(kLengthBytes),
                                            file.size_ - file.data_offset_);
  } catch (const Error& error) {
    throw refuse(error.what());
  }
  return file;
}

void SafetensorsFile::read(const TensorEntry& entry, const Region& wanted,
                           std::span<std::byte> out) const {
  read_blocks(entry, wanted, [&](const Region& block, std::span<const std::byte> elements) {
    copy_block(block, elements, wanted, out, entry.element_bytes);
  });
}

void SafetensorsFile::read_floats(const TensorEntry& entry, const Region& wanted,
                                  std::span<float> out, Order order) const {
  const auto dtype = weight_dtype(entry.dtype);
  TROUPE_ASSERT(dtype.has_value());
  const bool is_narrow = dtype != WeightDType::f32;
  std::vector<float> wide(is_narrow ? kBlockBytes / entry.element_bytes : 0);
  std::optional<Error> fault;  // told only if no checksum tells of damage
  read_blocks(entry, wanted, [&](const Region& block, std::span<const std::byte> elements) {
    if (!fault)
      fault = not_finite({.tensor = entry.name, .file = path_, .region = block}, elements, *dtype);
    if (is_narrow) {
      const auto floats = std::span(wide).first(elements.size() / entry.element_bytes);
      widen(elements, *dtype, floats);
      elements = std::as_bytes(floats);
    }
    copy_block(block, elements, wanted, std::as_writable_bytes(out), sizeof(float), order);
  });
  if (fault) throw *fault;
}

std::vector<std::byte> SafetensorsFile::first_bytes(const TensorEntry& entry,
                                                    std::size_t most) const {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::min<std::uint64_t>(most, entry.num_bytes())));
  InputFile::open(path_).read(data_offset_ + entry.begin, bytes);
  return bytes;
}

void SafetensorsFile::verify(ProgressSum& verified) const {
  for (const TensorEntry& entry : header_.tensors)
    for (const RegionSum& expected : entry.sums) verify(entry, expected, verified);
}

void SafetensorsFile::verify(const TensorEntry& entry, const RegionSum& expected,
                             ProgressSum& verified) const {
  const InputFile input = InputFile::open(path_);
  std::vector<std::byte> buffer(kBlockBytes);
  check(entry, expected,
        read_region(input, matrix_of(entry), expected.region, buffer, [](const auto&, auto) {}));
  verified.add(bytes_of(entry, expected));
}

std::uint64_t SafetensorsFile::bytes_with_sums() const {
  std::uint64_t bytes = 0;
  for (const TensorEntry& entry : header_.tensors)
    for (const RegionSum& sum : entry.sums) bytes += bytes_of(entry, sum);
  return bytes;
}

void SafetensorsFile::read_blocks(const TensorEntry& entry, const Region& wanted,
                                  const BlockUse& use) const {
  const InputFile input = InputFile::open(path_);
  std::vector<std::byte> buffer(kBlockBytes);
  const StoredMatrix matrix = matrix_of(entry);
  if (entry.sums.empty()) read_region(input, matrix, wanted, buffer, use);
  for (const RegionSum& expected : entry.sums) {
    if (tensor::intersection(expected.region, wanted).num_elements() == 0) continue;
    check(entry, expected, read_region(input, matrix, expected.region, buffer, use));
  }
}

StoredMatrix SafetensorsFile::matrix_of(const TensorEntry& entry) const {
  return {.begin = data_offset_ + entry.begin,
          .columns = entry.whole.columns,
          .element_bytes = entry.element_bytes};
}

void SafetensorsFile::check(const TensorEntry& entry, const RegionSum& expected,
                            std::uint64_t sum) const {
  if (expected.sum == to_hex(sum)) return;
  throw data_error("{}: damaged: the bytes of tensor {} do not match their checksum",
                   path_.string(), region_name(entry.name, expected.region, entry.whole));
}

}  // namespace troupe::stages
