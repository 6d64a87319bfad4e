#include "stages/storage/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

MappedFile MappedFile::open(const std::filesystem::path& path) {
  return map(InputFile::open(path));
}

MappedFile MappedFile::map(const InputFile& file) {
  if (file.size() == 0) return MappedFile({});  // mmap refuses a length of zero
  void* data = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (data == MAP_FAILED)
    throw data_error("{}: cannot map: {}", file.path().string(), std::strerror(errno));
  return MappedFile({static_cast<const std::byte*>(data), file.size()});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace troupe::stages
