#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "launch/commands/models/inference.h"
#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/host/progress_line.h"
#include "launch/run/result_file.h"
#include "schedules/plan/counted.h"
#include "stages/corpus/text/json_line.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/safetensors/safetensors.h"
#include "stages/storage/input_file.h"
#include "tensor/device/host_copies.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

/// A line of the file. Throws Error{data} with `place`, the file and the number of the line.
Ids parse_ids(const std::string& line, const std::string& place, std::int64_t vocab_size) {
  json list;
  try {
    list = stages::parse_json_line(line);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", place, error.what()));
  }
  if (!list.is_array() || list.empty())
    throw Error(ErrorKind::data, fmt::format("{}: expected a JSON list of token ids", place));
  Ids ids;
  for (const json& id : list) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab_size))
      throw Error(ErrorKind::data, fmt::format("{}: {} is no token id; they are 0 to {}", place,
                                               id.dump(), vocab_size - 1));
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

std::vector<Ids> read_ids(const std::string& path, const stages::ModelConfig& model) {
  std::ifstream file(path);
  if (!file)
    throw Error(ErrorKind::data,
                fmt::format("{}: {}", path, stages::why_unreadable(path, "no such file")));
  std::vector<Ids> lists;
  for (std::string line; std::getline(file, line);) {
    const std::string place = fmt::format("{}:{}", path, lists.size() + 1);
    lists.push_back(parse_ids(line, place, model.vocab_size));
    const auto length = static_cast<std::int64_t>(lists.back().size());
    if (stages::traits_of(model.kind).learns_positions && length > model.max_position_embeddings)
      throw Error(
          ErrorKind::data,
          fmt::format("{}: {}, but the model has {}", place, schedules::counted(length, "token"),
                      schedules::counted(model.max_position_embeddings, "position")));
  }
  if (lists.empty()) throw Error(ErrorKind::data, fmt::format("{} is empty", path));
  return lists;
}

/// Computes the logits of lists of one length, one list at a time. No list is filled up to another
/// length, because rotary embeddings may depend on it.
class LogitsOfLength {
 public:
  LogitsOfLength(const stages::CheckpointReader& checkpoint, tensor::Device& device,
                 std::int64_t length)
      : outputs_(num_outputs(checkpoint.info().model)),
        length_(length),
        stage_(part_of_model(checkpoint.info().model, {}, 1, length, device)),
        ids_(device.allocate(static_cast<std::size_t>(length) * sizeof(std::int32_t),
                             tensor::MemoryKind::pinned)),
        logits_(device.allocate(static_cast<std::size_t>(length * outputs_) * sizeof(float),
                                tensor::MemoryKind::device)),
        copies_(device) {
    checkpoint.load(*stage_, /*weights_only=*/true, progress_line("loading weights,"));
    stage_->begin_step();
  }

  /// [length, outputs], row by row.
  std::vector<float> of(const Ids& ids) {
    const std::span pinned(static_cast<std::int32_t*>(ids_.data()), ids.size());
    std::ranges::copy(ids, pinned.begin());
    const auto logits = logits_.view(tensor::DType::f32, {length_, outputs_});
    stage_->evaluate(0, {}, logits, pinned, {});
    const tensor::Tensor host = copies_.on_host(logits);
    return {host.as<float>(), host.as<float>() + host.num_elements()};
  }

 private:
  static std::int64_t num_outputs(const stages::ModelConfig& model) {
    return model.value_head ? 1 : model.vocab_size;
  }

  const std::int64_t outputs_;
  const std::int64_t length_;
  const std::unique_ptr<stages::Stage> stage_;
  const tensor::Buffer ids_;
  const tensor::Buffer logits_;
  tensor::HostCopies copies_;
};

}  // namespace

int run(const LogitsOptions& options) {
  const auto checkpoint = stages::CheckpointReader::open(model_directory(options.checkpoint));
  ResultFile output(options.output);
  const std::vector<Ids> lists = read_ids(options.ids, checkpoint->info().model);
  std::multimap<std::size_t, std::size_t> by_length;
  for (std::size_t i = 0; i < lists.size(); ++i) by_length.emplace(lists[i].size(), i);
  const auto device = device_for(options.device, options.threads);
  std::vector<std::vector<float>> logits(lists.size());
  std::unique_ptr<LogitsOfLength> model;
  std::size_t current = 0;
  for (const auto& [length, i] : by_length) {
    if (length != current) {
      model.reset();  // its memory is for the next one
      model =
          std::make_unique<LogitsOfLength>(*checkpoint, *device, static_cast<std::int64_t>(length));
    }
    current = length;
    logits[i] = model->of(lists[i]);
  }
  std::vector<stages::NamedTensor> tensors;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const auto rows = static_cast<std::int64_t>(lists[i].size());
    tensors.push_back({fmt::format("logits.{}", i),
                       {logits[i].data(),
                        tensor::DType::f32,
                        {rows, static_cast<std::int64_t>(logits[i].size()) / rows}}});
  }
  output.write([&](stages::OutputFile& file) { stages::write_safetensors(file, tensors); });
  print(fmt::format("{} of {} in {}\n", "logits",
                    schedules::counted(static_cast<std::int64_t>(lists.size()), "list"),
                    options.output));
  return 0;
}

}  // namespace troupe::launch
