#include "stages/corpus/text/indexed_dataset.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "stages/corpus/text/dataset_layout.h"
#include "stages/storage/input_file.h"
#include "stages/storage/mapped_file.h"
#include "stages/storage/xxh64.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

constexpr std::string_view kBinSuffix = ".bin";
constexpr std::string_view kIdxSuffix = ".idx";
constexpr std::string_view kSumsSuffix = ".xxh64";

std::string prefix_of(const std::string& path) {
  for (const std::string_view suffix : {kBinSuffix, kIdxSuffix})
    if (path.ends_with(suffix)) return path.substr(0, path.size() - suffix.size());
  return path;
}

/// The bytes of an .idx whose head fits its length.
class IndexBytes {
 public:
  IndexBytes(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {
    if (bytes.size() < kIdxHeadBytes)
      throw refuse(fmt::format("{} bytes, its head alone has {}", bytes.size(), kIdxHeadBytes));
    if (at<std::array<char, 9>>(0) != kIdxMagic) throw refuse("it does not begin with MMIDIDX");
    if (const auto version = at<std::uint64_t>(9); version != kIdxVersion)
      throw refuse(fmt::format("version {}, expected {}", version, kIdxVersion));
    dtype_code_ = at<std::uint8_t>(17);
    num_sequences_ = at<std::uint64_t>(18);
    num_boundaries_ = at<std::uint64_t>(26);
    check_length();
  }

  std::uint8_t dtype_code() const { return dtype_code_; }
  std::uint64_t num_sequences() const { return num_sequences_; }
  std::uint64_t num_boundaries() const { return num_boundaries_; }
  std::int64_t length(std::uint64_t sequence) const {
    return at<std::int32_t>(kIdxHeadBytes + 4 * sequence);
  }
  std::int64_t offset(std::uint64_t sequence) const {
    return at<std::int64_t>(kIdxHeadBytes + 4 * num_sequences_ + 8 * sequence);
  }
  /// The sequence at which a document begins; the last entry is the number of sequences.
  std::int64_t boundary(std::uint64_t i) const {
    return at<std::int64_t>(kIdxHeadBytes + 12 * num_sequences_ + 8 * i);
  }
  Error refuse(const std::string& why) const {
    return Error(ErrorKind::data, fmt::format("{}: not a dataset index: {}", path_, why));
  }

 private:
  void check_length() const {
    const std::uint64_t arrays = bytes_.size() - kIdxHeadBytes;
    // Divisions come first, because the products could overflow.
    if (num_sequences_ > arrays / 12 || num_boundaries_ > arrays / 8 ||
        12 * num_sequences_ + 8 * num_boundaries_ != arrays)
      throw refuse(fmt::format(
          "{} sequences and {} document boundaries do not make its {} bytes (a dataset with a mode "
          "per sequence is not text)",
          num_sequences_, num_boundaries_, bytes_.size()));
  }

  template <typename T>
  T at(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  std::string path_;
  std::span<const std::byte> bytes_;
  std::uint8_t dtype_code_ = 0;
  std::uint64_t num_sequences_ = 0, num_boundaries_ = 0;
};

TokenWidth width_of(const IndexBytes& index) {
  for (const DatasetDType& dtype : kDatasetDTypes)
    if (dtype.code == index.dtype_code()) return dtype.width;
  throw index.refuse(fmt::format("dtype code {}, expected 1 (uint8), 4 (int32) or 8 (uint16)",
                                 index.dtype_code()));
}

/// Checks that the sequences fill the .bin without gaps. Returns the number of tokens.
std::int64_t check_sequences(const IndexBytes& index, TokenWidth width, std::uint64_t bin_bytes) {
  std::uint64_t begin = 0;
  for (std::uint64_t i = 0; i < index.num_sequences(); ++i) {
    const std::int64_t length = index.length(i), offset = index.offset(i);
    if (length < 0) throw index.refuse(fmt::format("sequence {} has {} tokens", i, length));
    if (offset < 0 || static_cast<std::uint64_t>(offset) != begin)
      throw index.refuse(
          fmt::format("sequence {} begins at byte {} of the .bin, expected {}: gaps "
                      "and overlaps make no stream",
                      i, offset, begin));
    begin += static_cast<std::uint64_t>(length) * bytes_of(width);
  }
  if (begin != bin_bytes)
    throw index.refuse(
        fmt::format("its sequences hold {} bytes, the .bin has {}", begin, bin_bytes));
  return static_cast<std::int64_t>(begin / bytes_of(width));
}

void check_documents(const IndexBytes& index) {
  const std::uint64_t boundaries = index.num_boundaries();
  const auto end = static_cast<std::int64_t>(index.num_sequences());
  if (boundaries == 0) throw index.refuse("it has no document boundaries");
  if (index.boundary(0) != 0 || index.boundary(boundaries - 1) != end)
    throw index.refuse(fmt::format("its documents span sequences {} to {}, expected 0 to {}",
                                   index.boundary(0), index.boundary(boundaries - 1), end));
  for (std::uint64_t i = 1; i < boundaries; ++i)
    if (index.boundary(i) < index.boundary(i - 1))
      throw index.refuse(fmt::format("document {} ends before it begins", i - 1));
}

}  // namespace

bool is_indexed_dataset(const std::string& path) {
  return path.ends_with(kBinSuffix) || path.ends_with(kIdxSuffix) ||
         (file_exists(path + std::string(kIdxSuffix)) &&
          file_exists(path + std::string(kBinSuffix)));
}

std::string bin_path(const std::string& path) {
  return prefix_of(path) + std::string(kBinSuffix);
}

std::string idx_path(const std::string& path) {
  return prefix_of(path) + std::string(kIdxSuffix);
}

std::string sums_path(const std::string& path) {
  return prefix_of(path) + std::string(kSumsSuffix);
}

void verify_dataset(const std::string& path) {
  constexpr std::size_t kSumDigits = 16, kGap = 2;
  constexpr std::uint64_t kMostBytes = 1 << 16;
  const std::string sums = sums_path(path);
  if (!file_exists(sums)) return;
  std::istringstream lines(read_whole_file(sums, kMostBytes));
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.size() > kSumDigits + kGap ? line.substr(kSumDigits + kGap) : "";
    for (const std::string& file : {bin_path(path), idx_path(path)}) {
      if (std::filesystem::path(file).filename() != name) continue;
      const std::string sum = to_hex(xxh64(MappedFile::open(file).bytes()));
      if (line.substr(0, kSumDigits) != sum)
        throw Error(ErrorKind::data,
                    fmt::format("{}: its bytes are not those that were written: XXH64 {}, and {} "
                                "says {}; make the dataset anew, or remove {} if the change is "
                                "meant",
                                file, sum, sums, line.substr(0, kSumDigits), sums));
    }
  }
}

DatasetIndex read_dataset_index(const std::string& path) {
  const std::uint64_t bin_bytes = InputFile::open(bin_path(path)).size();
  const MappedFile file = MappedFile::open(idx_path(path));
  const IndexBytes index(idx_path(path), file.bytes());
  const TokenWidth width = width_of(index);
  const std::int64_t num_tokens = check_sequences(index, width, bin_bytes);
  check_documents(index);
  if (num_tokens == 0)
    throw Error(ErrorKind::data, fmt::format("{}: the dataset is empty", bin_path(path)));
  return {.width = width,
          .num_sequences = static_cast<std::int64_t>(index.num_sequences()),
          .num_documents = static_cast<std::int64_t>(index.num_boundaries()) - 1,
          .num_tokens = num_tokens};
}

DatasetDocuments::DatasetDocuments(const std::string& path)
    : index_(read_dataset_index(path)),
      file_(InputFile::open(idx_path(path))),
      mapped_(MappedFile::map(file_)) {
  // Another file may have taken the place of the one that was checked a moment ago.
  const auto bytes = static_cast<std::int64_t>(kIdxHeadBytes) + 12 * index_.num_sequences +
                     8 * (index_.num_documents + 1);
  if (std::ssize(mapped_.bytes()) != bytes)
    throw Error(ErrorKind::data, idx_path(path) + ": changed while it was opened");
}

std::int64_t DatasetDocuments::number_at(std::int64_t byte) const {
  std::int64_t number = 0;
  std::memcpy(&number, mapped_.bytes().data() + byte, sizeof number);
  return number;
}

std::int64_t DatasetDocuments::begin(std::int64_t i) const {
  const auto lengths = static_cast<std::int64_t>(kIdxHeadBytes);
  const std::int64_t offsets = lengths + 4 * index_.num_sequences;
  const std::int64_t boundaries = offsets + 8 * index_.num_sequences;
  const std::int64_t sequence = number_at(boundaries + 8 * i);
  if (sequence == index_.num_sequences) return index_.num_tokens;
  return number_at(offsets + 8 * sequence) / static_cast<std::int64_t>(bytes_of(index_.width));
}

}  // namespace troupe::stages
