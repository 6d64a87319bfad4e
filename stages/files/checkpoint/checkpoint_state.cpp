#include "stages/files/checkpoint/checkpoint_state.h"

#include <algorithm>
#include <array>

#include "stages/files/safetensors/json_file.h"
#include "stages/files/safetensors/stored_tensor.h"
#include "stages/storage/data_error.h"
#include "stages/storage/mapped_file.h"
#include "stages/storage/output_file.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "troupe-checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::array kComputeDTypes = {tensor::DType::f32, tensor::DType::bf16};

tensor::DType compute_dtype(const std::string& name, const std::filesystem::path& path) {
  for (const tensor::DType dtype : kComputeDTypes)
    if (tensor::name_of(dtype) == name) return dtype;
  throw data_error("{}: dtype is {}, expected float32 or bfloat16", path.string(), name);
}

std::map<std::string, FileRecord> parse_files(const json& state,
                                              const std::filesystem::path& path) {
  const auto files = state.find("files");
  if (files == state.end() || !files->is_object())
    throw data_error("{}: \"files\" is no object", path.string());
  std::map<std::string, FileRecord> records;
  for (const auto& [name, record] : files->items()) {
    if (!is_plain_name(name) || !record.is_object())
      throw data_error("{}: \"files\" has an entry {} that is no file of a checkpoint",
                       path.string(), json(name).dump());
    records[name] = {
        .size = static_cast<std::uint64_t>(get_member<std::int64_t>(record, "size", path)),
        .sum = get_member<std::string>(record, "xxh64", path)};
  }
  return records;
}

std::optional<Training> parse_training(const json& state, const std::filesystem::path& path) {
  const auto training = state.find("training");
  if (training == state.end()) return std::nullopt;
  if (!training->is_object()) throw data_error("{}: \"training\" is no object", path.string());
  Training out{
      .seed = static_cast<std::uint64_t>(get_member<std::int64_t>(*training, "seed", path)),
      .digest = get_member<std::string>(*training, "digest", path),
      .shuffle = get_member<bool>(*training, "shuffle", path),
      .global = get_member<std::int64_t>(*training, "global", path),
      .lr = get_member<double>(*training, "lr", path)};
  // Older versions joined the samples of every run, and trained on all of them.
  if (training->contains("documents"))
    out.documents = get_member<std::string>(*training, "documents", path);
  if (training->contains("loss_on"))
    out.loss_on = get_member<std::string>(*training, "loss_on", path);
  if (training->contains("bos")) out.bos = get_member<std::string>(*training, "bos", path);
  if (training->contains("end_of_document"))
    out.end_of_document = get_member<std::string>(*training, "end_of_document", path);
  return out;
}

/// A group for each tensor that is named as frozen; none if none is.
std::vector<ParameterGroup> parse_frozen(const json& state, const std::filesystem::path& path) {
  std::vector<ParameterGroup> groups;
  const auto frozen = state.find("frozen");
  if (frozen == state.end()) return groups;
  if (!frozen->is_array() ||
      !std::ranges::all_of(*frozen, [](const json& name) { return name.is_string(); }))
    throw data_error("{}: \"frozen\" is no list of names", path.string());
  for (const json& name : *frozen)
    groups.push_back({.match = name.get<std::string>(), .update = {.frozen = true}});
  return groups;
}

}  // namespace

FileRecord record_of(const std::filesystem::path& path) {
  if (is_safetensors(path)) return record_of(SafetensorsFile::open(path));
  const MappedFile file = MappedFile::open(path);
  return {.size = file.bytes().size(), .sum = to_hex(xxh64(file.bytes()))};
}

FileRecord record_of(const SafetensorsFile& file) {
  return {.size = file.size(), .sum = to_hex(file.header_sum())};
}

void write_checkpoint_state(const std::filesystem::path& dir, const CheckpointState& state) {
  json files = json::object();
  for (const auto& [name, record] : state.files)
    files[name] = {{"size", record.size}, {"xxh64", record.sum}};
  json content = {
      {"format", kFormat},
      {"version", kVersion},
      {"step", state.info.step},
      {"next_sample", state.info.next_sample},
      {"seq_len", state.info.seq_len},
      {"dtype", tensor::name_of(state.info.model.dtype)},
      {"tokenizer", state.info.tokenizer},
      {"files", files},
  };
  if (!state.base_sum.empty()) content["base"] = {{"xxh64", state.base_sum}};
  for (const StoredTensor& tensor : saved_tensors(state.info.model))
    if (tensor.frozen) content["frozen"].push_back(tensor.name);
  if (const auto& training = state.info.training)
    content["training"] = {{"seed", training->seed},
                           {"digest", training->digest},
                           {"shuffle", training->shuffle},
                           {"documents", training->documents},
                           {"loss_on", training->loss_on},
                           {"bos", training->bos},
                           {"end_of_document", training->end_of_document},
                           {"global", training->global},
                           {"lr", training->lr}};
  write_whole_file(dir / kStateFile, content.dump(2) + '\n');
}

CheckpointState read_checkpoint_state(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / kStateFile;
  const json content = read_json_file(path);
  if (const std::string format = get_member<std::string>(content, "format", path);
      format != kFormat)
    throw data_error("{}: format is {}, expected {}", path.string(), format, kFormat);
  if (const std::int64_t version = get_member<std::int64_t>(content, "version", path);
      version != kVersion)
    throw data_error("{}: version {}, this program reads version {}", path.string(), version,
                     kVersion);
  CheckpointState state;
  state.info.step = get_member<std::int64_t>(content, "step", path);
  state.info.next_sample = get_member<std::int64_t>(content, "next_sample", path);
  state.info.seq_len = get_member<std::int64_t>(content, "seq_len", path);
  state.info.tokenizer = get_member<std::string>(content, "tokenizer", path);
  state.info.model.dtype = compute_dtype(get_member<std::string>(content, "dtype", path), path);
  state.info.model.groups = parse_frozen(content, path);
  state.info.training = parse_training(content, path);
  state.files = parse_files(content, path);
  if (const auto base = content.find("base"); base != content.end())
    state.base_sum = get_member<std::string>(*base, "xxh64", path);
  if (state.info.step < 0 || state.info.next_sample < 0 || state.info.seq_len < 1)
    throw data_error("{}: step {}, next_sample {} or seq_len {} is out of range", path.string(),
                     state.info.step, state.info.next_sample, state.info.seq_len);
  return state;
}

}  // namespace troupe::stages
