#include "launch/hosts/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <utility>

#include "actors/files/listing.h"
#include "actors/messages/secret.h"
#include "launch/host/quantities.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;
using actors::FilesAway;
using actors::FilesOffer;
using actors::FilesSeen;
using actors::FilesWanted;

/// How much later than it was written a file may be seen without a word of it, in seconds.
constexpr double kSoon = 0.1;
/// How long a file system is watched that shows files late.
constexpr double kWatched = 2;

/// What the name of a file begins with by which hosts see that they share the run's directory.
constexpr const char* kMarker = ".hosts-";

/// The innermost folder around a path that exists.
fs::path first_folder_above(fs::path path) {
  while (!fs::is_directory(path)) path = path.parent_path();
  return path;
}

/// A file with a name that nobody uses, which is removed at the end.
class Probe {
 public:
  explicit Probe(const fs::path& folder)
      : path_(folder / (".troupe-probe-" + actors::random_token())) {}
  Probe(const Probe&) = delete;
  ~Probe() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  /// Gives it so many bytes.
  void write(std::size_t bytes) const {
    if (!(std::ofstream(path_) << std::string(bytes, '.')).flush())
      throw Error(ErrorKind::data, path_.parent_path().string() + ": no file can be written there");
  }
  std::string path() const { return path_.string(); }

 private:
  const fs::path path_;
};

FilesOffer::Input input_at(const std::string& path) {
  FilesOffer::Input input{.path = path, .files = {}, .bytes = {}};
  const auto [folder, files] = actors::files_at(path);
  for (const actors::ListedFile& file : files) {
    input.files.push_back(folder / file.name);
    input.bytes.push_back(static_cast<std::int64_t>(file.bytes));
  }
  return input;
}

FilesOffer offer_of(const Manifest& manifest) {
  const actors::RunSpec spec = to_run_spec(manifest);
  FilesOffer offer{
      .run_dir = spec.dir, .marker = "", .tokens = {}, .folders = {}, .gathers = manifest->gather};
  for (const auto& source : spec.data.sources) offer.tokens.push_back(input_at(source.tokens));
  if (spec.eval.interval > 0)
    for (const auto& set : spec.eval.sets) offer.tokens.push_back(input_at(set.tokens));
  const std::string& start = spec.checkpoint.resume;
  if (!start.empty()) offer.folders.push_back(input_at(start));
  if (const auto& adapter = spec.model.adapter; adapter && adapter->base != start)
    offer.folders.push_back(input_at(adapter->base));
  return offer;
}

/// What launchers that were killed have left.
std::vector<fs::path> markers_in(const fs::path& run_dir) {
  std::vector<fs::path> markers;
  for (const auto& entry : fs::directory_iterator(run_dir))
    if (entry.path().filename().string().starts_with(kMarker)) markers.push_back(entry.path());
  return markers;
}

std::string bytes_of(const FilesOffer& offer, const FilesAway& away) {
  std::int64_t bytes = 0;
  for (const auto& [inputs, paths] :
       {std::pair(&offer.tokens, &away.tokens), std::pair(&offer.folders, &away.folders)})
    for (const FilesOffer::Input& input : *inputs)
      if (std::ranges::find(*paths, input.path) != paths->end())
        for (const std::int64_t each : input.bytes) bytes += each;
  return bytes_text(bytes);
}

}  // namespace

RunFiles::RunFiles(std::shared_ptr<actors::Hosts> door, const Manifest& manifest)
    : door_(std::move(door)), offer_(offer_of(manifest)) {}

RunFiles::~RunFiles() {
  std::error_code ignored;
  if (!marker_.empty()) fs::remove(marker_, ignored);
}

std::vector<std::string> RunFiles::present() const {
  std::vector<std::string> hosts;
  for (const auto& entry : door_->registry().entries())
    if (!entry.lost) hosts.push_back(entry.host.name);
  return hosts;
}

/// The answers of these hosts, as far as they are still there.
std::map<std::string, FilesSeen> RunFiles::ask(const FilesWanted& question,
                                               const std::vector<std::string>& hosts) {
  // The hosts watch the time; more than that is an agent's silence.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10) +
                        std::chrono::duration<double>(question.patience_s);
  door_->ask_for(question);
  std::map<std::string, FilesSeen> answers;
  std::string silent;
  door_->registry().wait([&] {
    silent.clear();
    answers.clear();
    const auto seen = door_->registry().seen();
    for (const std::string& host : present()) {
      if (std::ranges::find(hosts, host) == hosts.end()) continue;
      if (const auto found = seen.find(host); found != seen.end())
        answers.insert(*found);
      else
        silent = host;
    }
    return silent.empty() || std::chrono::steady_clock::now() > deadline;
  });
  if (!silent.empty())
    throw Error(ErrorKind::unavailable, silent + " does not say which files it sees");
  return answers;
}

void RunFiles::settle(const Tell& tell) {
  const Probe probe(first_folder_above(offer_.run_dir));
  constexpr std::size_t kBytes = 5;
  probe.write(kBytes);
  offer_.marker = probe.path();
  offer_.marker_bytes = kBytes;
  door_->offer(offer_);
  std::map<std::string, FilesAway> away;
  std::vector<std::string> sharing;
  for (const auto& [host, seen] : ask(question_of(offer_), present())) {
    away[host] = away_of(offer_, seen);
    if (const auto why = refusal_of(offer_, away[host]))
      throw Error(ErrorKind::unavailable, host + ": " + *why);
    if (away[host].run_dir.empty()) sharing.push_back(host);
  }
  measure(sharing, tell);
  bring(away, tell);
}

/// Tells which hosts see a file late that they have looked for before it was there, or a change of
/// one that they have seen. Workers open what is new to them, and wait for it.
void RunFiles::measure(const std::vector<std::string>& sharing, const Tell& tell) {
  if (sharing.empty()) return;
  const Probe probe(first_folder_above(offer_.run_dir));
  constexpr std::size_t kBefore = 5, kAfter = 10;
  ask({.paths = {probe.path()}, .bytes = {}}, sharing);
  probe.write(kBefore);
  const auto is_late = [&](std::size_t bytes) {
    const auto seen = ask({.paths = {probe.path()},
                           .bytes = {static_cast<std::int64_t>(bytes)},
                           .patience_s = kWatched},
                          sharing);
    std::map<std::string, double> late;
    for (const auto& [host, files] : seen)
      late[host] = files.late_s.empty() ? 0 : files.late_s.front();
    return late;
  };
  std::map<std::string, double> late = is_late(kBefore);
  probe.write(kAfter);
  for (const auto& [host, seconds] : is_late(kAfter)) late[host] = std::max(late[host], seconds);
  for (const std::string& host : sharing)
    if (late[host] > kSoon)
      tell(fmt::format("files     {} sees what others write {}{:.1f} s late\n", host,
                       late[host] < kWatched ? "" : "more than ", std::min(late[host], kWatched)));
}

void RunFiles::bring(const std::map<std::string, FilesAway>& away, const Tell& tell) {
  for (const auto& [host, files] : away) {
    if (!files.run_dir.empty())
      tell(fmt::format("files     {} does not see {}: its parts of checkpoints come here\n", host,
                       files.run_dir));
    if (!files.tokens.empty() || !files.folders.empty())
      tell(fmt::format("files     {} is brought {} that it lacks, or has compared\n", host,
                       bytes_of(offer_, files)));
    door_->bring(host, files);
  }
  std::string failed;
  door_->registry().wait([&] {
    const auto brought = door_->registry().brought();
    bool all = true;
    for (const std::string& host : present()) {
      const auto found = brought.find(host);
      if (found != brought.end() && !found->second.empty()) failed = found->second;
      all = all && (found != brought.end() || !away.contains(host));
    }
    return all || !failed.empty();
  });
  if (!failed.empty()) throw Error(ErrorKind::unavailable, failed);
}

void RunFiles::open(const fs::path& run_dir) {
  const std::string text = "hosts that see this file share the run's directory\n";
  std::error_code ignored;
  for (const fs::path& left : markers_in(run_dir)) fs::remove(left, ignored);
  marker_ = run_dir / (kMarker + actors::random_token());
  if (!(std::ofstream(marker_) << text).flush())
    throw Error(ErrorKind::data, marker_.string() + ": cannot be written");
  offer_.run_dir = run_dir;
  offer_.marker = marker_;
  offer_.marker_bytes = std::ssize(text);
  door_->offer(offer_);
}

}  // namespace troupe::launch
