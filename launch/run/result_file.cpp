#include "launch/run/result_file.h"

#include <filesystem>

#include "tensor/errors/error.h"
namespace troupe::launch {

ResultFile::ResultFile(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unknown;  // if it cannot be examined, opening it reports why
  const fs::file_status status = fs::status(path, unknown);
  if (path.empty()) throw Error(ErrorKind::data, "a file to write must have a name");
  if (fs::is_directory(status))
    throw Error(ErrorKind::data, path + ": cannot write: Is a directory");
  writing_output([&] {
    if (fs::exists(status) && !fs::is_regular_file(status))
      direct_.emplace(stages::OutputFile::create(path));
    else
      published_.emplace(path);
  });
}

void ResultFile::write(std::string_view content) {
  write([content](stages::OutputFile& file) { file.write(content); });
}

void ResultFile::write(const std::function<void(stages::OutputFile&)>& content) {
  writing_output([&] {
    if (direct_) return content(*direct_);
    content(published_->file());
    published_->publish();
  });
}

}  // namespace troupe::launch
