#include "stages/checkpoint/region_writer.h"
#include "stages/checkpoint/safetensors.h"
#include "stages/storage/output_file.h"

namespace troupe::stages {
namespace {

SafetensorsLayout layout_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorLayout> layouts;
  for (const auto& [name, tensor] : tensors)
    layouts.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape, .regions = {}});
  return SafetensorsLayout(std::move(layouts));
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  const SafetensorsLayout layout = layout_of(tensors);
  OutputFile file = OutputFile::create(path);
  file.write(layout.head());
  for (const auto& [name, tensor] : tensors)
    write_region(file, layout,
                 {name, layout.whole_of(name), {tensor.as<const std::byte>(), tensor.num_bytes()}});
  file.sync_and_close();
}

}  // namespace troupe::stages
