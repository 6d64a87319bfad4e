#include "actors/files/merged_file.h"

#include <fmt/format.h>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

stages::OutputFile opened(const std::filesystem::path& path, std::uint64_t bytes) {
  stages::OutputFile file = stages::OutputFile::open(path);
  const std::uint64_t has = std::filesystem::file_size(path);
  if (has != 0 && has != bytes)
    throw Error(ErrorKind::internal,
                fmt::format("{}: {} bytes here, {} on another host: the parts are not of one file",
                            path.string(), has, bytes));
  file.resize(bytes);
  return file;
}

}  // namespace

MergedFile::MergedFile(const std::filesystem::path& path, std::uint64_t bytes)
    : out_(opened(path, bytes)), in_(stages::InputFile::open(path)) {}

void MergedFile::add(std::uint64_t offset, std::span<const std::byte> bytes) {
  merged_.resize(bytes.size());
  in_.read(offset, merged_);
  for (std::size_t i = 0; i < bytes.size(); ++i) merged_[i] |= bytes[i];
  out_.write_at(offset, merged_);
}

}  // namespace troupe::actors
