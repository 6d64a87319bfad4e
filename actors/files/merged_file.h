#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"

namespace troupe::actors {

/// A file of a checkpoint whose writers were on several hosts: each wrote its regions into a file
/// of its own, of the same size, with the same head and with zeros where others write (Shards write
/// one file without a word, stages/files/README.md). So the whole is the bitwise or of them all, in
/// any order, and adding the same once more changes nothing. One thread at a time adds.
class MergedFile {
 public:
  /// Opens the file, or makes it, and gives it its size, at least. Throws as OutputFile does, and
  /// Error{internal} if one of another size is there.
  MergedFile(const std::filesystem::path& path, std::uint64_t bytes);
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  void sync_and_close() { out_.sync_and_close(); }

 private:
  stages::OutputFile out_;
  stages::InputFile in_;
  std::vector<std::byte> merged_;
};

}  // namespace troupe::actors
