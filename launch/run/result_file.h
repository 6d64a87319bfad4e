#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

/// Calls `write`, which makes the files that a command is for. Where one cannot be written, the
/// place that the user gave is at fault: that is Error{data} then.
template <typename Write>
auto writing_output(const Write& write) try {
  return write();
} catch (const Error& error) {
  if (error.kind() == ErrorKind::internal) throw Error(ErrorKind::data, error.what());
  throw;
}

/// The output file that the user named for a command's result. A regular file appears only when it
/// is complete; a device or a pipe is not replaced but written to. All failures are Error{data},
/// and most are thrown by the constructor, before any work is done.
class ResultFile {
 public:
  explicit ResultFile(const std::string& path);
  void write(std::string_view content);
  /// Has the whole content written to the file.
  void write(const std::function<void(stages::OutputFile&)>& content);

 private:
  std::optional<stages::PublishedFile> published_;
  std::optional<stages::OutputFile> direct_;
};

}  // namespace troupe::launch
