#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "stages/checkpoint/safetensors.h"
#include "stages/checkpoint/safetensors_header.h"
#include "stages/storage/input_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
/// Small enough that a block read is still in the cache when its checksum is taken.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  const auto refuse = [&path](const std::string& why) {
    return Error(ErrorKind::data,
                 fmt::format("{}: not a complete safetensors file: {}", path.string(), why));
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
  try {
    file.header_ = parse_safetensors_header(std::string_view(head).substr(kLengthBytes),
                                            file.size_ - file.data_offset_);
  } catch (const Error& error) {
    throw refuse(error.what());
  }
  return file;
}

void SafetensorsFile::read(const TensorEntry& entry, std::span<std::byte> out) const {
  TROUPE_ASSERT(out.size() == entry.num_bytes());
  const InputFile input = InputFile::open(path_);
  Xxh64 sum;
  for (std::size_t done = 0; done < out.size();) {
    const auto block = out.subspan(done, std::min(kBlockBytes, out.size() - done));
    input.read(data_offset_ + entry.begin + done, block);
    sum.update(block);
    done += block.size();
  }
  check_sum(entry, sum);
}

void SafetensorsFile::verify() const {
  const InputFile input = InputFile::open(path_);
  std::vector<std::byte> buffer(kBlockBytes);
  for (const TensorEntry& entry : header_.tensors) {
    Xxh64 sum;
    for (std::uint64_t at = entry.begin; at < entry.end;) {
      const auto block = std::span(buffer).first(std::min(buffer.size(), entry.end - at));
      input.read(data_offset_ + at, block);
      sum.update(block);
      at += block.size();
    }
    check_sum(entry, sum);
  }
}

void SafetensorsFile::check_sum(const TensorEntry& entry, const Xxh64& sum) const {
  const auto expected = header_.metadata.find(sum_key(entry.name));
  if (expected != header_.metadata.end() && expected->second != to_hex(sum.digest()))
    throw Error(ErrorKind::data,
                fmt::format("{}: damaged: the bytes of tensor {} do not match their checksum",
                            path_.string(), entry.name));
}

}  // namespace troupe::stages
