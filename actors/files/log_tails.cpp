#include "actors/files/log_tails.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "actors/files/listing.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

std::int64_t log_bytes(const fs::path& file) {
  std::error_code code;
  const auto bytes = fs::file_size(file, code);
  return code ? 0 : static_cast<std::int64_t>(bytes);
}

/// What a file has in [begin, end), of more than kTailBytes the last whole lines; none if it cannot
/// be read.
std::optional<LogTail> last_lines(const fs::path& file, std::int64_t begin, std::int64_t end) try {
  const std::int64_t from = std::max(begin, end - kTailBytes);
  std::string text(static_cast<std::size_t>(end - from), '\0');
  stages::InputFile::open(file).read(static_cast<std::uint64_t>(from),
                                     std::as_writable_bytes(std::span(text)));
  if (const auto line = text.find('\n'); from > begin && line != std::string::npos)
    text.erase(0, line + 1);
  return LogTail{
      .folder = file.parent_path().filename(), .file = file.filename(), .text = std::move(text)};
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace

void LogTails::begin(const fs::path& file) {
  told_[file] = log_bytes(file);
}

std::optional<LogTail> LogTails::take(const fs::path& file, const std::string& host) {
  const std::int64_t end = log_bytes(file);
  std::int64_t& told = told_[file];
  if (end < told) told = 0;  // it was written anew
  if (told == end) return std::nullopt;
  auto tail = last_lines(file, told, end);
  if (tail && end - told > kTailBytes)
    tail->text.insert(
        0, fmt::format("(lines before these are in {} on host {})\n", file.string(), host));
  told = end;
  return tail;
}

std::optional<LogTail> LogTails::take_anew(const fs::path& file) {
  std::error_code code;
  const auto time = fs::last_write_time(file, code);
  if (code || written_[file] == time) return std::nullopt;
  written_[file] = time;
  auto tail = last_lines(file, 0, log_bytes(file));
  if (tail) tail->replaces = true;
  return tail;
}

void add_tail(const fs::path& logs, const LogTail& tail) {
  if (!is_file_name(tail.folder) || !is_file_name(tail.file))
    throw stages::data_error("'{}/{}' is no file of a worker's log", tail.folder, tail.file);
  const fs::path file = logs / tail.folder / tail.file;
  std::error_code code;
  fs::create_directories(file.parent_path(), code);
  // As a worker's log is opened on the launcher's host.
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (tail.replaces ? O_TRUNC : O_APPEND);
  const int fd = open(file.c_str(), flags, 0600);
  const bool written =
      fd >= 0 && write(fd, tail.text.data(), tail.text.size()) == std::ssize(tail.text);
  if (fd >= 0) close(fd);
  if (!written) throw stages::data_error("{}: cannot add what a worker said", file.string());
}

}  // namespace troupe::actors
