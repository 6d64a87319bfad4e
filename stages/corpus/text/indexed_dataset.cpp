#include "stages/corpus/text/indexed_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

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

DatasetDocuments::DatasetDocuments(const std::string& path)
    : DatasetDocuments(path, InputFile::open(bin_path(path)).size()) {}

DatasetDocuments::DatasetDocuments(const std::string& path, std::uint64_t bin_bytes)
    : file_(InputFile::open(idx_path(path))), mapped_(MappedFile::map(file_)) {
  read_head();
  check_sequences(bin_bytes);
  check_documents();
  if (index_.num_tokens == 0)
    throw Error(ErrorKind::data, fmt::format("{}: the dataset is empty", bin_path(path)));
}

void DatasetDocuments::read_head() {
  const std::uint64_t bytes = mapped_.bytes().size();
  if (bytes < kIdxHeadBytes)
    throw refusal(fmt::format("{} bytes, its head alone has {}", bytes, kIdxHeadBytes));
  if (at<std::array<char, 9>>(0) != kIdxMagic) throw refusal("it does not begin with MMIDIDX");
  if (const auto version = at<std::uint64_t>(9); version != kIdxVersion)
    throw refusal(fmt::format("version {}, expected {}", version, kIdxVersion));
  const auto code = at<std::uint8_t>(17);
  const auto num_sequences = at<std::uint64_t>(18), num_boundaries = at<std::uint64_t>(26);
  const std::uint64_t arrays = bytes - kIdxHeadBytes;
  // Divisions come first, because the products could overflow.
  if (num_sequences > arrays / 12 || num_boundaries > arrays / 8 ||
      12 * num_sequences + 8 * num_boundaries != arrays)
    throw refusal(fmt::format(
        "{} sequences and {} document boundaries do not make its {} bytes (a dataset with a mode "
        "per sequence is not text)",
        num_sequences, num_boundaries, bytes));
  const auto* const dtype = std::ranges::find(kDatasetDTypes, code, &DatasetDType::code);
  if (dtype == kDatasetDTypes.end())
    throw refusal(fmt::format("dtype code {}, expected 1 (uint8), 4 (int32) or 8 (uint16)", code));
  index_ = {.width = dtype->width,
            .num_sequences = static_cast<std::int64_t>(num_sequences),
            .num_documents = static_cast<std::int64_t>(num_boundaries) - 1};
}

/// Checks that the sequences fill the .bin without gaps.
void DatasetDocuments::check_sequences(std::uint64_t bin_bytes) {
  std::uint64_t begin = 0;
  for (std::int64_t i = 0; i < index_.num_sequences; ++i) {
    if (length(i) < 0) throw refusal(fmt::format("sequence {} has {} tokens", i, length(i)));
    if (offset(i) < 0 || static_cast<std::uint64_t>(offset(i)) != begin)
      throw refusal(
          fmt::format("sequence {} begins at byte {} of the .bin, expected {}: gaps "
                      "and overlaps make no stream",
                      i, offset(i), begin));
    begin += static_cast<std::uint64_t>(length(i)) * bytes_of(index_.width);
  }
  if (begin != bin_bytes)
    throw refusal(fmt::format("its sequences hold {} bytes, the .bin has {}", begin, bin_bytes));
  index_.num_tokens = static_cast<std::int64_t>(begin / bytes_of(index_.width));
}

void DatasetDocuments::check_documents() const {
  const auto& [width, num_sequences, num_documents, num_tokens] = index_;
  if (num_documents < 0) throw refusal("it has no document boundaries");
  if (boundary(0) != 0 || boundary(num_documents) != num_sequences)
    throw refusal(fmt::format("its documents span sequences {} to {}, expected 0 to {}",
                              boundary(0), boundary(num_documents), num_sequences));
  for (std::int64_t i = 0; i < num_documents; ++i)
    if (boundary(i + 1) < boundary(i))
      throw refusal(fmt::format("document {} ends before it begins", i));
}

Error DatasetDocuments::refusal(const std::string& why) const {
  return Error(ErrorKind::data,
               fmt::format("{}: not a dataset index: {}", file_.path().string(), why));
}

template <typename Number>
Number DatasetDocuments::at(std::uint64_t byte) const {
  Number number;
  std::memcpy(&number, mapped_.bytes().data() + byte, sizeof number);
  return number;
}

std::int64_t DatasetDocuments::length(std::int64_t sequence) const {
  return at<std::int32_t>(kIdxHeadBytes + 4 * static_cast<std::uint64_t>(sequence));
}

std::int64_t DatasetDocuments::offset(std::int64_t sequence) const {
  return at<std::int64_t>(kIdxHeadBytes +
                          static_cast<std::uint64_t>(4 * index_.num_sequences + 8 * sequence));
}

std::int64_t DatasetDocuments::boundary(std::int64_t i) const {
  return at<std::int64_t>(kIdxHeadBytes +
                          static_cast<std::uint64_t>(12 * index_.num_sequences + 8 * i));
}

std::int64_t DatasetDocuments::begin(std::int64_t i) const {
  const std::int64_t sequence = boundary(i);
  if (sequence == index_.num_sequences) return index_.num_tokens;
  return offset(sequence) / static_cast<std::int64_t>(bytes_of(index_.width));
}

}  // namespace troupe::stages
