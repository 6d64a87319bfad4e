#include "tensor/cuda/products/algorithm_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "tensor/errors/error.h"
#include "tensor/values/random.h"

namespace troupe::tensor::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "troupe products 1";

[[noreturn]] void fail(const fs::path& file, const char* action) {
  const std::string reason = std::generic_category().message(errno);
  throw Error(ErrorKind::unavailable,
              fmt::format("cannot {} {}: {}", action, file.string(), reason));
}

class File {
 public:
  File(const fs::path& path, int flags) : path_(path), fd_(open(path.c_str(), flags, 0644)) {
    if (fd_ < 0) fail(path, "open");
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }

  /// Waits until no other process holds the lock; it ends with this object, or its process.
  void lock() const {
    while (flock(fd_, LOCK_EX) != 0)
      if (errno != EINTR) fail(path_, "lock");
  }
  void write_durably(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = write(fd_, text.data(), text.size());
      if (written < 0 && errno != EINTR) fail(path_, "write");
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (fsync(fd_) != 0) fail(path_, "sync");
  }

 private:
  const fs::path& path_;
  const int fd_;
};

std::string words_of(const AlgorithmStore::Algorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x} ", word);
  return text;
}

std::string line_of(const std::string& key, const AlgorithmStore::Algorithm& algorithm) {
  const std::string words = words_of(algorithm);
  return fmt::format("{}{:016x} {}\n", words, Random(0, words + key).key(), key);
}

/// The key and algorithm of a line without its end; none if it is not exactly as line_of() wrote
/// it.
std::optional<std::pair<std::string, AlgorithmStore::Algorithm>> parsed(const std::string& line) {
  std::istringstream text(line);
  AlgorithmStore::Algorithm algorithm{};
  std::uint64_t check = 0;
  for (std::uint64_t& word : algorithm) text >> std::hex >> word;
  text >> check;
  std::string key;
  if (text.get() != ' ' || !std::getline(text, key)) return std::nullopt;
  if (line_of(key, algorithm) != line + "\n") return std::nullopt;
  return std::pair(key, algorithm);
}

}  // namespace

AlgorithmStore::Algorithm AlgorithmStore::find_or_choose(const std::string& key,
                                                         const std::function<Algorithm()>& choose) {
  TROUPE_ASSERT(!key.empty() && key.find('\n') == std::string::npos);
  if (const auto kept = find(key)) return *kept;
  read();
  if (const auto kept = find(key)) return *kept;
  const fs::path lock_path = file_.string() + ".lock";
  const File lock(lock_path, O_RDWR | O_CREAT | O_CLOEXEC);
  lock.lock();
  read();  // what another process chose before it gave up the lock
  if (const auto kept = find(key)) return *kept;
  const Algorithm chosen = choose();
  algorithms_[key] = chosen;
  write();
  return chosen;
}

std::optional<AlgorithmStore::Algorithm> AlgorithmStore::find(const std::string& key) {
  const auto found = algorithms_.find(key);
  return found == algorithms_.end() ? std::nullopt : std::optional(found->second);
}

void AlgorithmStore::read() {
  std::ifstream stream(file_, std::ios::binary);
  if (!stream) {
    if (fs::exists(file_)) fail(file_, "read");
    return;
  }
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::istringstream lines(text);
  int number = 0;
  const auto damaged = [&] {
    return Error(ErrorKind::data,
                 fmt::format("{}:{}: not a line of the algorithms that were chosen for products. "
                             "Without the file they are chosen again, and results may differ in "
                             "their last bits from those before",
                             file_.string(), number));
  };
  for (std::string line; std::getline(lines, line);) {
    if (++number == 1) {
      if (line != kFormat) throw damaged();
      continue;
    }
    const auto entry = parsed(line);
    if (!entry) throw damaged();
    algorithms_.insert_or_assign(entry->first, entry->second);
  }
  if (text.empty() || text.back() != '\n') throw damaged();
}

void AlgorithmStore::write() const {
  std::string text = fmt::format("{}\n", kFormat);
  for (const auto& [key, algorithm] : algorithms_) text += line_of(key, algorithm);
  const fs::path part = file_.string() + ".part";
  File(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC).write_durably(text);
  if (rename(part.c_str(), file_.c_str()) != 0) fail(file_, "replace");
}

}  // namespace troupe::tensor::cuda
