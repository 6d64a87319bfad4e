#include "stages/files/safetensors/region_writer.h"
#include "stages/files/safetensors/safetensors.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// How a file spells each tensor::DType.
constexpr std::string_view kStored[]{"F32", "BF16", "I32", "F64", "I64"};

SafetensorsLayout layout_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorLayout> layouts;
  for (const auto& [name, tensor] : tensors)
    layouts.push_back({.name = name,
                       .dtype = kStored[static_cast<std::size_t>(tensor.dtype)],
                       .shape = tensor.shape,
                       .regions = {}});
  return SafetensorsLayout(std::move(layouts));
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  OutputFile file = OutputFile::create(path);
  write_safetensors(file, tensors);
  file.sync_and_close();
}

void write_safetensors(OutputFile& file, const std::vector<NamedTensor>& tensors) {
  const SafetensorsLayout layout = layout_of(tensors);
  file.write(layout.head());
  for (const auto& [name, tensor] : tensors)
    write_region(file, layout,
                 {name, layout.whole_of(name), {tensor.as<const std::byte>(), tensor.num_bytes()}});
}

}  // namespace troupe::stages
