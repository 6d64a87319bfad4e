#pragma once

#include <filesystem>
#include <string>

namespace troupe::stages {

/// Whose a directory is: its owner has written a text that nobody else writes into a file there. If
/// the directory is removed, moved, or made anew by another owner, the claim falls. Whoever writes
/// into the directory by its path asks before.
struct Claim {
  /// A file in the directory itself; empty: it has no other owners, and the claim stands.
  std::filesystem::path file;
  std::string text;

  /// Whether the file holds the text. A file that cannot be read now, though it is there, counts as
  /// if it did. Callable from any thread; throws nothing.
  bool stands() const;
  /// What a person is told if the claim has fallen, naming the directory.
  std::string fault() const;
  /// Throws Error{data} with fault() if the claim has fallen.
  void check() const;
};

}  // namespace troupe::stages
