#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace troupe::tensor::cuda {

/// The algorithms that were chosen for products by their speed, in a file that all processes of a
/// run share. A clock decides between near-equals differently each time, and another algorithm
/// gives other bits: so the first process that meets a product chooses, and every other one, and
/// every later life of the run, reads what it chose.
///
/// The file is text: a line that names the format, then for each product a line of the algorithm's
/// 64 bytes as hexadecimal words, a check of the line, and the key.
class AlgorithmStore {
 public:
  /// cuBLASLt's own form of an algorithm, which it lets others keep for the same version.
  using Algorithm = std::array<std::uint64_t, 8>;

  explicit AlgorithmStore(const std::filesystem::path& file) : file_(file) {}

  /// The algorithm that is kept for `key`; if there is none, the result of choose(), which is then
  /// kept. Only one process chooses at a time. A key is one line that names all that the choice
  /// depends on. Throws Error{data} if the file is damaged and Error{unavailable} if it cannot be
  /// written.
  Algorithm find_or_choose(const std::string& key, const std::function<Algorithm()>& choose);

 private:
  std::optional<Algorithm> find(const std::string& key);
  void read();
  void write() const;

  const std::filesystem::path file_;
  std::map<std::string, Algorithm> algorithms_;  // as last read
};

}  // namespace troupe::tensor::cuda
