#include "stages/files/safetensors/region_writer.h"
#include "stages/files/safetensors/safetensors.h"
#include "stages/storage/output_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

/// How a file spells the dtype.
std::string_view stored_name(tensor::DType dtype) {
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
  assert_failed("dtype is a DType", __FILE__, __LINE__);
}

SafetensorsLayout layout_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorLayout> layouts;
  for (const auto& [name, tensor] : tensors)
    layouts.push_back(
        {.name = name, .dtype = stored_name(tensor.dtype), .shape = tensor.shape, .regions = {}});
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
