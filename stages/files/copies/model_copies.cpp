#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "stages/files/checkpoint/checkpoint_content.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/copies/hugging_face.h"
#include "stages/files/hugging_face/hf_config.h"
#include "stages/files/hugging_face/hf_tokenizer.h"
#include "stages/files/hugging_face/side_files.h"
#include "stages/files/hugging_face/weight_files.h"
#include "stages/files/safetensors/finite_values.h"
#include "stages/files/safetensors/region_writer.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;
using tensor::Region;

/// Most bytes of a region without a checksum, but for one that is a single row.
constexpr std::int64_t kRegionBytes = std::int64_t{16} << 20;

/// The regions in which a tensor is copied.
std::vector<Region> regions_of(const TensorEntry& entry) {
  std::vector<Region> regions;
  for (const RegionSum& sum : entry.sums) regions.push_back(sum.region);
  if (!regions.empty()) return regions;
  const Region& whole = entry.whole;
  const auto row_bytes =
      std::max<std::int64_t>(1, whole.columns * static_cast<std::int64_t>(entry.element_bytes));
  const std::int64_t most = std::max<std::int64_t>(1, kRegionBytes / row_bytes);
  for (std::int64_t row = 0; row < whole.rows; row += most) {
    regions.push_back(whole);
    regions.back().row = row;
    regions.back().rows = std::min(most, whole.rows - row);
  }
  return regions;
}

/// The bytes of a region in a copy of this dtype. Throws Error{data} for a number that is not
/// finite, or not in the copy.
std::vector<std::byte> read(const TensorPlace& place, const Region& region,
                            std::optional<WeightDType> dtype) {
  const TensorEntry& entry = *place.entry;
  const ElementsOf of{.tensor = entry.name, .file = place.file->path(), .region = region};
  const auto elements = static_cast<std::size_t>(region.num_elements());
  const auto stored = weight_dtype(entry.dtype);
  if (!dtype || dtype == stored) {
    std::vector<std::byte> bytes(elements * entry.element_bytes);
    place.file->read(entry, region, bytes);
    if (const auto fault = not_finite(of, bytes, *stored)) throw *fault;
    return bytes;
  }
  std::vector<float> floats(elements);
  place.file->read_floats(entry, region, floats);
  std::vector<std::byte> bytes(elements * size_of(*dtype));
  narrow(floats, *dtype, bytes);
  if (const auto fault = out_of_range(of, floats, bytes, *dtype)) throw *fault;
  return bytes;
}

TensorLayout layout_of(const std::string& name, const TensorEntry& entry,
                       std::optional<WeightDType> dtype) {
  return {.name = name,
          .dtype = dtype ? traits_of(*dtype).stored : std::string_view(entry.dtype),
          .shape = tensor::Shape(entry.shape),
          .regions = regions_of(entry)};
}

/// The layout of a file with these tensors.
SafetensorsLayout layout_of(const TensorMap& tensors, std::optional<WeightDType> dtype) {
  std::vector<TensorLayout> layouts;
  for (const auto& [name, place] : tensors) layouts.push_back(layout_of(name, *place.entry, dtype));
  return SafetensorsLayout(std::move(layouts));
}

/// Copies these tensors into one file.
SafetensorsFile copy_file(const TensorMap& tensors, const SafetensorsLayout& layout,
                          const fs::path& path, std::optional<WeightDType> dtype,
                          const std::stop_token& stop, ProgressSum& written) {
  OutputFile file = OutputFile::create(path);
  file.write(layout.head());
  file.resize(layout.size());
  for (const auto& [name, place] : tensors)
    for (const Region& region : regions_of(*place.entry)) {
      if (stop.stop_requested()) throw Error(ErrorKind::retry, "stopped half way");
      const std::vector<std::byte> bytes = read(place, region, dtype);
      write_region(file, layout, {name, region, bytes});
      written.add(bytes.size());
    }
  file.sync_and_close();
  return SafetensorsFile::open(path);
}

/// The name of file `part` of `num_parts`, counted from 0.
using FileName = std::function<std::string(int part, int num_parts)>;

/// Copies the weights of a model into new files of the directory, as many as they lie in, of this
/// dtype or as they are stored. Each tensor is copied in regions of 16 MiB, or those that have a
/// checksum each, which is compared; the copies have one each.
std::vector<SafetensorsFile> copy_weights(const CheckpointContent& content, const fs::path& dir,
                                          const FileName& name, std::optional<WeightDType> dtype,
                                          const std::stop_token& stop, const Progress& progress) {
  std::vector<TensorMap> parts;
  std::vector<SafetensorsLayout> layouts;
  std::uint64_t total = 0;
  for (const SafetensorsFile& file : content.weights_files) {
    TensorMap tensors;
    for (const auto& [tensor, place] : content.weights)
      if (place.file == &file) tensors.emplace(tensor, place);
    if (tensors.empty()) continue;
    layouts.push_back(layout_of(tensors, dtype));
    total += layouts.back().size() - layouts.back().head().size();
    parts.push_back(std::move(tensors));
  }
  ProgressSum written(progress, total);
  std::vector<SafetensorsFile> copies;
  const int num_parts = static_cast<int>(parts.size());
  for (std::size_t part = 0; part < parts.size(); ++part)
    copies.push_back(copy_file(parts[part], layouts[part],
                               dir / name(static_cast<int>(part), num_parts), dtype, stop,
                               written));
  return copies;
}

ModelCopy copied(const fs::path& from, const CheckpointContent& content,
                 const ModelSource& source) {
  ModelCopy copy{.files = {},
                 .unused_fields = read_hf_config(from / kConfigFile).unused,
                 .left_out = content.left_out,
                 .tokenizer = about_tokenizer(content.tokenizer)};
  for (const auto& [name, text] : source.files) copy.files.push_back(name);
  return copy;
}

/// The name under which a checkpoint records a tokenizer of its directory.
std::string recorded_tokenizer(const std::string& tokenizer) {
  return fs::path(tokenizer).filename().string();
}

}  // namespace

ModelCopy import_model(const fs::path& from, const fs::path& to, const std::stop_token& stop,
                       const Progress& progress) {
  const CheckpointContent content = open_content(from);
  const ModelSource source = read_source(from);
  PublishedDirectory directory(to);
  const fs::path& dir = directory.path();
  CheckpointState state;
  const auto add = [&](const std::string& name) { state.files[name] = record_of(dir / name); };
  const auto files = copy_weights(content, dir, weights_file, std::nullopt, stop, progress);
  write_index(dir / kWeightsIndexFile, map_tensors(files));
  for (const SafetensorsFile& file : files) add(file.path().filename().string());
  add(kWeightsIndexFile);
  write_whole_file(dir / kConfigFile, source.config);
  add(kConfigFile);
  for (const auto& [name, text] : source.files) {
    write_whole_file(dir / name, text);
    add(name);
  }
  state.info = {.model = content.info.model,
                .tokenizer = recorded_tokenizer(content.tokenizer),
                .seq_len = content.info.seq_len,
                .training = std::nullopt};
  write_checkpoint_state(dir, state);
  directory.publish();
  return copied(from, content, source);
}

ModelCopy export_model(const fs::path& from, const fs::path& to, std::optional<WeightDType> dtype,
                       const std::stop_token& stop, const Progress& progress) {
  const CheckpointContent content = open_content(from);
  const ModelSource source = read_source(from);
  PublishedDirectory directory(to);
  const fs::path& dir = directory.path();
  const auto name = [](int part, int num_parts) {
    return num_parts == 1 ? kWeightsFile : weights_file(part, num_parts);
  };
  const auto files = copy_weights(content, dir, name, dtype, stop, progress);
  if (files.size() > 1) write_index(dir / kWeightsIndexFile, map_tensors(files));
  write_whole_file(dir / kConfigFile,
                   dtype ? with_dtype(source.config, name_of(*dtype)) : source.config);
  for (const auto& [file, text] : source.files) write_whole_file(dir / file, text);
  directory.publish();
  return copied(from, content, source);
}

}  // namespace troupe::stages
