#include "stages/storage/output_directory.h"

#include <fmt/format.h>

#include <random>

#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what, const std::error_code& code) {
  throw Error(ErrorKind::internal,
              fmt::format("{}: cannot {}: {}", path.string(), what, code.message()));
}

void refuse_if_taken(const fs::path& path) {
  if (file_exists(path))
    throw Error(ErrorKind::data,
                fmt::format("{} exists and is not replaced; name a new directory", path.string()));
}

/// The path without a trailing slash.
fs::path trimmed(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

PublishedDirectory::PublishedDirectory(fs::path path) : path_(trimmed(path)) {
  refuse_if_taken(path_);
  std::random_device random;
  unfinished_ = path_.string() + fmt::format(".{:08x}{:08x}.tmp", random(), random());
  std::error_code code;
  fs::create_directories(unfinished_, code);
  if (code)  // the user named a place where nothing can be written
    throw Error(ErrorKind::data,
                fmt::format("{}: cannot create: {}", path_.string(), code.message()));
}

PublishedDirectory::~PublishedDirectory() {
  std::error_code ignored;
  if (!published_) fs::remove_all(unfinished_, ignored);
}

void PublishedDirectory::publish() {
  refuse_if_taken(path_);
  sync_directory(unfinished_);
  std::error_code code;
  fs::rename(unfinished_, path_, code);
  if (code) fail(path_, "rename to", code);
  published_ = true;
  sync_directory(path_.parent_path());
}

}  // namespace troupe::stages
