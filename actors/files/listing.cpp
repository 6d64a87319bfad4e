#include "actors/files/listing.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stages/corpus/text/indexed_dataset.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "stages/storage/not_there.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

ListedFile listed(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const int code = errno;
    const std::string why = fmt::format("{}: {}", path.string(), std::strerror(code));
    if (code == ENOENT || code == ESTALE) throw stages::NotThere(why);
    throw Error(ErrorKind::data, why);
  }
  if (!S_ISREG(status.st_mode)) throw stages::data_error("{}: not a regular file", path.string());
  return {.name = path.filename().string(),
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .written_ns = status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec};
}

}  // namespace

FilesAt files_at(const fs::path& path) {
  std::error_code code;
  FilesAt found{.folder = path.parent_path(), .files = {}};
  if (fs::is_directory(path, code)) {
    found.folder = path;
    fs::directory_iterator entry(path, code);
    for (const fs::directory_iterator end; !code && entry != end; entry.increment(code))
      if (std::error_code ignored; entry->is_regular_file(ignored))
        found.files.push_back(listed(entry->path()));
    if (code) throw stages::data_error("{}: cannot list: {}", path.string(), code.message());
    std::ranges::sort(found.files, {}, &ListedFile::name);
  } else if (stages::is_indexed_dataset(path)) {
    found.files = {listed(stages::bin_path(path)), listed(stages::idx_path(path))};
  } else {
    found.files = {listed(path)};
  }
  return found;
}

std::uint64_t sum_of_file(const fs::path& path) {
  const stages::InputFile file = stages::InputFile::open(path);
  stages::Xxh64 sum;
  std::vector<std::byte> buffer(1 << 20);
  for (std::uint64_t at = 0; at < file.size(); at += buffer.size()) {
    const auto part = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), file.size() - at)));
    file.read(at, part);
    sum.update(part);
  }
  return sum.digest();
}

bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  const fs::path inner = path.lexically_normal(), outer = folder.lexically_normal();
  const auto [of_outer, of_inner] =
      std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return of_outer == outer.end() || (of_outer->empty() && std::next(of_outer) == outer.end());
}

}  // namespace troupe::actors
