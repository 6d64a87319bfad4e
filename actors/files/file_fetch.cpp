#include "actors/files/file_fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/files/listing.h"
#include "stages/storage/not_there.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// Blocks that are asked for before the first of them has come.
constexpr std::uint64_t kAhead = 8;
constexpr std::chrono::milliseconds kAskWhyStop{200};

/// Whether a block is one that was asked for: nothing else may be written anywhere.
bool is_answer(const Block& block, std::uint64_t offset, std::uint64_t size) {
  return block.offset == offset && block.size == size &&
         (block.bytes.empty() || block.bytes.size() == size);
}

}  // namespace

FileFetch::FileFetch(caf::actor_system& system, caf::actor source, std::string host,
                     FetchLimits limits)
    : self_(system),
      source_(std::move(source)),
      host_(std::move(host)),
      limits_(std::move(limits)) {
  self_->monitor(source_);
}

std::string FileFetch::of_host(const std::string& what) const {
  return fmt::format("files of {}: {}", host_, what);
}

/// The next message of a kind from the source.
template <typename Answer>
Answer FileFetch::next() {
  const auto deadline = std::chrono::steady_clock::now() + limits_.silent;
  std::optional<Answer> answer;
  std::string gone;
  while (!answer) {
    self_->receive([&](Answer& came) { answer = std::move(came); },
                   [&](const caf::down_msg&) { gone = "is gone"; },
                   [&](const caf::error& error) { gone = self_->system().render(error); },
                   caf::after(kAskWhyStop) >> [] {});
    if (answer) break;
    if (const std::string why = limits_.why_stop ? limits_.why_stop() : ""; !why.empty())
      throw Error(ErrorKind::retry, of_host(why));
    if (gone.empty() && std::chrono::steady_clock::now() > deadline)
      gone = fmt::format("has sent nothing for {} s", limits_.silent.count());
    if (!gone.empty()) throw Error(ErrorKind::unavailable, of_host("the host " + gone));
  }
  return std::move(*answer);
}

std::vector<ListedFile> FileFetch::list(const std::string& path, bool sums) {
  self_->send(source_, ListingWanted{.path = path, .sums = sums});
  Listing listing = next<Listing>();
  if (listing.absent) throw stages::NotThere(of_host(listing.error));
  if (!listing.error.empty()) throw Error(ErrorKind::data, of_host(listing.error));
  for (const ListedFile& file : listing.files)
    if (!is_file_name(file.name))
      throw Error(ErrorKind::data, of_host("'" + file.name + "' is no file's name"));
  return std::move(listing.files);
}

void FileFetch::fetch(const std::string& path, const ListedFile& file, const Use& use) {
  const std::string zeros(kBlockBytes, '\0');
  const auto size_at = [&](std::uint64_t offset) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlockBytes, file.bytes - offset));
  };
  std::uint64_t asked = 0;
  for (std::uint64_t taken = 0; taken < file.bytes; taken += size_at(taken)) {
    for (; asked < file.bytes && asked < taken + kAhead * kBlockBytes; asked += size_at(asked))
      self_->send(
          source_,
          BlockWanted{.path = path, .name = file.name, .offset = asked, .size = size_at(asked)});
    const Block block = next<Block>();
    if (!block.error.empty()) throw Error(ErrorKind::data, of_host(block.error));
    if (!is_answer(block, taken, size_at(taken)))
      throw Error(ErrorKind::data,
                  of_host(fmt::format("another block of {} than byte {}", file.name, taken)));
    const std::string& bytes = block.bytes.empty() ? zeros : block.bytes;
    use({.offset = taken,
         .bytes = std::as_bytes(std::span(bytes)).first(block.size),
         .is_zero = block.bytes.empty()});
  }
}

}  // namespace troupe::actors
