#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stages/storage/output_file.h"

namespace troupe::launch {

/// A file that the user named for what a command finds out. An ordinary one appears when it is
/// complete; what is none (a device, a pipe) stays what it is and is written to. All failures are
/// Error{data}, and most come from the constructor, before any work is done.
class ResultFile {
 public:
  explicit ResultFile(const std::string& path);
  void write(std::string_view content);

 private:
  std::optional<stages::PublishedFile> published_;
  std::optional<stages::OutputFile> direct_;
};

}  // namespace troupe::launch
