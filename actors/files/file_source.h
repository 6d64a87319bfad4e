#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "actors/messages/file_messages.h"

namespace troupe::actors {

/// Another host, as one that files come from. Calls block; errors are thrown as Error, and name the
/// host.
class FileSource {
 public:
  virtual ~FileSource() = default;
  /// The files that a path stands for there, by name. Throws stages::NotThere if
  /// nothing is there.
  virtual std::vector<ListedFile> list(const std::string& path, bool sums) = 0;
  /// Some bytes of a file; the next ones follow those before. `is_zero` if all of them are zeros.
  struct Piece {
    std::uint64_t offset = 0;
    std::span<const std::byte> bytes;
    bool is_zero = false;
  };
  using Use = std::function<void(const Piece& piece)>;
  /// Gives all of a file of a listing of `path` to `use`, whose exceptions pass through; then, as
  /// after any other, the object is not used any more. Throws Error{data} if the file is not as it
  /// was listed, Error{unavailable} if the host is gone, and Error{retry} if it is to stop.
  virtual void fetch(const std::string& path, const ListedFile& file, const Use& use) = 0;
};

}  // namespace troupe::actors
