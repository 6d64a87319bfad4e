#include <fmt/format.h>

#include <array>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

/// A directory that is gone when this object is.
class Passing {
 public:
  explicit Passing(fs::path path) : path_(std::move(path)) {}
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;
  ~Passing() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

}  // namespace

void try_saving(const fs::path& checkpoints) {
  constexpr std::array text{std::byte{'o'}, std::byte{'k'}};
  constexpr std::uint64_t hole = 8;  // as where regions of other shards are
  // Named as attempts are, so that what a crash leaves is removed as what they leave.
  const Passing written(unfinished_checkpoint(checkpoints, 0));
  const Passing renamed(unfinished_checkpoint(checkpoints, 0));
  std::error_code code;
  fs::create_directories(written.path(), code);
  refuse_if(code, written.path().string() + ": cannot create");
  for (const std::uint64_t offset : {hole, hole + text.size()}) {
    OutputFile file = OutputFile::open(written.path() / "parts");
    file.resize(hole + 2 * text.size());
    file.write_at(offset, text);
    file.sync_and_close();
  }
  PublishedFile(written.path() / "whole").publish();
  PublishedFile(written.path() / "whole").publish();  // over the one before
  sync_directory(written.path());
  fs::rename(written.path(), renamed.path(), code);
  refuse_if(code, written.path().string() + ": cannot rename, a directory with files,");
  sync_directory(checkpoints);
  std::array<std::byte, 2 * text.size()> back{};
  InputFile::open(renamed.path() / "parts").read(hole, back);
  if (!std::equal(text.begin(), text.end(), back.begin()) ||
      !std::equal(text.begin(), text.end(), back.begin() + text.size()))
    throw Error(ErrorKind::internal,
                fmt::format("{}: holds other bytes than were written at their places",
                            (renamed.path() / "parts").string()));
}

}  // namespace troupe::stages
