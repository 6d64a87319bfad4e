#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stages/checkpoint/safetensors.h"
#include "stages/checkpoint/safetensors_header.h"
#include "stages/storage/output_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

constexpr std::size_t kAlignment = 8;

std::string_view dtype_name(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::f32:
      return "F32";
    case tensor::DType::bf16:
      return "BF16";
    case tensor::DType::i32:
      return "I32";
    case tensor::DType::f64:
      return "F64";
    case tensor::DType::i64:
      return "I64";
  }
  return {};
}

/// Position in the format's order of dtypes. Wide dtypes come later in it, and first in a file, so
/// that every tensor is aligned.
std::ptrdiff_t dtype_order(tensor::DType dtype) {
  const auto* found = std::find_if(kSafetensorsDTypes.begin(), kSafetensorsDTypes.end(),
                                   [&](const auto& d) { return d.name == dtype_name(dtype); });
  return found - kSafetensorsDTypes.begin();
}

std::span<const std::byte> bytes_of(const tensor::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data), tensor.num_bytes()};
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string make_header(const std::vector<NamedTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt")";
  for (const auto& [name, tensor] : tensors)
    header += fmt::format(R"(,{}:"{}")", quoted(sum_key(name)), to_hex(xxh64(bytes_of(tensor))));
  header += '}';
  std::size_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t end = begin + tensor.num_bytes();
    header +=
        fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", quoted(name),
                    dtype_name(tensor.dtype), fmt::join(tensor.shape.dims(), ","), begin, end);
    begin = end;
  }
  header += '}';
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return header;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       std::atomic<std::uint64_t>* written) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return std::pair(-dtype_order(a.tensor.dtype), a.name) <
           std::pair(-dtype_order(b.tensor.dtype), b.name);
  });
  const std::string header = make_header(tensors);
  if (header.size() > kMaxHeaderBytes)
    throw Error(ErrorKind::internal,
                fmt::format("{}: {} tensors need a header of {} bytes, at most {} are allowed",
                            path.string(), tensors.size(), header.size(), kMaxHeaderBytes));
  const std::uint64_t length = header.size();
  OutputFile file = OutputFile::create(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const NamedTensor& named : tensors) {
    file.write(bytes_of(named.tensor));
    if (written) *written += named.tensor.num_bytes();
  }
  file.sync_and_close();
}

}  // namespace troupe::stages
