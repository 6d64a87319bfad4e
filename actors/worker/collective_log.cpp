#include "actors/worker/collective_log.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace troupe::actors {
namespace {

nlohmann::json to_json(int rank, const transport::OperationRecord& record) {
  nlohmann::json line{
      {"rank", rank},
      {"configuration", record.configuration / 2},  // each configuration is two of the data plane
      {"group", record.group.data()},
      {"sequence", record.sequence},
      {"operation", name_of(record.operation)},
      {"dtype", tensor::name_of(record.dtype)},
      {"elements", record.elements},
      {"alike", record.alike},
      {"by_device", record.by_device},
      {"started", record.started_s},
      {"finished", nullptr},
      {"missing", record.missing}};
  if (record.finished_s > 0) line["finished"] = record.finished_s;
  return line;
}

}  // namespace

void write_collectives(const std::string& run_dir, int rank,
                       std::span<const transport::OperationRecord> records) {
  if (records.empty()) return;
  const std::string folder = run_dir + "/logs/rank-" + std::to_string(rank);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::ofstream file(folder + "/collectives.jsonl");
  for (const auto& record : records) file << to_json(rank, record).dump() << '\n';
}

}  // namespace troupe::actors
