#include "actors/files/files_offer.h"

#include <fmt/format.h>

#include <utility>

namespace troupe::actors {
namespace {

/// How long a network file system may take to show a new file, where a wrong verdict ends the run.
constexpr double kLagS = 20;
/// Where it costs no more than the way of the files.
constexpr double kShortLagS = 3;

}  // namespace

FilesWanted question_of(const FilesOffer& offer) {
  FilesWanted question{.paths = {offer.marker},
                       .bytes = {offer.marker_bytes},
                       .patience_s = offer.gathers ? kShortLagS : kLagS};
  // Inputs were there before: who does not see them now never will.
  for (const auto* inputs : {&offer.tokens, &offer.folders})
    for (const FilesOffer::Input& input : *inputs)
      question.paths.insert(question.paths.end(), input.files.begin(), input.files.end());
  return question;
}

FilesAway away_of(const FilesOffer& offer, const FilesSeen& seen) {
  std::size_t next = 0;
  const auto sees = [&](std::int64_t bytes) {
    const std::size_t i = next++;
    return i < seen.bytes.size() && seen.bytes[i] == bytes;
  };
  FilesAway away;
  const bool shares = sees(offer.marker_bytes);
  if (!shares) away.run_dir = offer.run_dir;
  const auto look = [&](const std::vector<FilesOffer::Input>& inputs,
                        std::vector<std::string>& missing) {
    for (const FilesOffer::Input& input : inputs) {
      bool all = true;
      for (const std::int64_t bytes : input.bytes) all = sees(bytes) && all;
      if (!all || !shares) missing.push_back(input.path);
    }
  };
  look(offer.tokens, away.tokens);
  look(offer.folders, away.folders);
  return away;
}

std::optional<std::string> refusal_of(const FilesOffer& offer, const FilesAway& away) {
  if (away.run_dir.empty() || offer.gathers) return std::nullopt;
  return fmt::format(
      "it does not see new files of the launcher's host in {}: share the folder of the run, as by "
      "NFS, or set checkpoint.gather = true, by which parts of checkpoints come to the launcher's "
      "host over the network",
      away.run_dir);
}

}  // namespace troupe::actors
