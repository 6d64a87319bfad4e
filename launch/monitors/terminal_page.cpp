#include "launch/monitors/terminal_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/host/machine.h"
#include "launch/host/quantities.h"
#include "schedules/counted.h"

namespace troupe::launch {
namespace {

constexpr int kBarWidth = 12;
constexpr int kMaxCurveHeight = 8;

/// A line that fits `width`: characters that are not printable ASCII become '?', and a longer line
/// is cut.
std::string fitted(std::string line, int width) {
  for (char& c : line)
    if (c < ' ' || c > '~') c = '?';
  if (static_cast<int>(line.size()) > width) line.resize(static_cast<std::size_t>(width));
  return line;
}

std::string header(const RunPicture& run) {
  return fmt::format("{}  {}  step {}  epoch {}  loss {:.4f}  norm {:.3f}  {:.0f} tokens/s",
                     run.name(), run.state(), run.step(), run.epoch(), run.loss(), run.grad_norm(),
                     run.tokens_per_s());
}

/// The topology as a line: "pp 3 x dp 1   0 -> 1 -> 2"; the shards of a stage as "0+1".
std::string topology(const RunPicture& run) {
  std::string line = fmt::format("pp {} x dp {}", run.pp(), run.dp());
  if (run.tp() > 1) line += fmt::format(" x tp {}", run.tp());
  int replica = -1, stage = -1;
  for (const auto& [number, rank] : run.ranks()) {
    const bool same = rank.replica == replica;
    line += !same ? "   " : rank.stage == stage ? "+" : " -> ";
    replica = rank.replica;
    stage = rank.stage;
    line += std::to_string(number);
  }
  return line;
}

std::string busy_bar(const RunPicture::Rank& rank) {
  const double all = rank.busy_s + rank.idle_s;
  const double share = all > 0 && std::isfinite(all) ? std::clamp(rank.busy_s / all, 0.0, 1.0) : 0;
  const auto filled = static_cast<std::size_t>(std::lround(share * kBarWidth));
  return fmt::format("[{}{}] {:>3.0f} %", std::string(filled, '#'),
                     std::string(kBarWidth - filled, '.'), 100 * share);
}

std::string rank_line(int number, const RunPicture::Rank& rank, int shards) {
  const std::string memory =
      rank.resident_bytes == 0 ? ""
                               : bytes_text(static_cast<std::int64_t>(rank.resident_bytes)) + "  ";
  const std::string shard_text = shards > 1 ? fmt::format("t{} ", rank.shard) : "";
  return fmt::format("rank {:>3} r{} s{} {}{}  {}{}", number, rank.replica, rank.stage, shard_text,
                     busy_bar(rank), memory,
                     rank.waiting_for.empty() ? rank.state : "<- " + rank.waiting_for);
}

/// The losses as a curve of '*', the newest at the right, with the curve's largest and smallest
/// value at the left margin.
std::vector<std::string> curve(const std::vector<double>& losses, int width, int height) {
  if (losses.empty() || height < 2 || width < 24) return {};
  const auto [low, high] = std::minmax_element(losses.begin(), losses.end());
  const double span = std::max(*high - *low, 1e-9);
  if (!std::isfinite(span)) return {};
  const int columns = width - 11;
  std::vector<std::string> rows(
      static_cast<std::size_t>(height),
      std::string(10, ' ') + "|" + std::string(static_cast<std::size_t>(columns), ' '));
  for (int x = 0; x < columns; ++x) {
    const auto at = static_cast<std::size_t>(static_cast<double>(x) / columns *
                                             static_cast<double>(losses.size()));
    const double share = (*high - losses[at]) / span;
    const auto y = static_cast<std::size_t>(std::lround(share * (height - 1)));
    rows[y][static_cast<std::size_t>(11 + x)] = '*';
  }
  rows.front().replace(0, 10, fmt::format("{:>9.4f} ", *high).substr(0, 10));
  rows.back().replace(0, 10, fmt::format("{:>9.4f} ", *low).substr(0, 10));
  return rows;
}

std::string footer(const RunPicture& run, const PageOptions& options) {
  return fmt::format(
      "q leave   space {}   e {}   j/k scroll ranks{}", options.frozen ? "go on" : "freeze",
      options.events_only ? "all" : "events",
      run.dropped() == 0
          ? ""
          : fmt::format("   {} missed",
                        schedules::counted(static_cast<std::int64_t>(run.dropped()), "event")));
}

void append_newest(std::vector<std::string>& page, const RunPicture& run, int rows) {
  const auto& all = run.recent_events();
  const std::size_t shown = std::min(all.size(), static_cast<std::size_t>(std::max(rows, 0)));
  page.insert(page.end(), all.end() - static_cast<std::ptrdiff_t>(shown), all.end());
}

void append_ranks(std::vector<std::string>& page, const RunPicture& run, int first, int rows) {
  const int count = static_cast<int>(run.ranks().size());
  const int hidden = std::max(0, count - rows);
  int skip = std::clamp(first, 0, hidden);
  for (const auto& [number, rank] : run.ranks()) {
    if (skip-- > 0) continue;
    if (rows-- <= 0) return;
    page.push_back(rank_line(number, rank, run.tp()));
  }
}

}  // namespace

std::vector<std::string> terminal_page(const RunPicture& run, const PageOptions& options) {
  std::vector<std::string> page{header(run)};
  const int body = options.height - 2;  // lines without header and footer
  if (options.events_only) {
    append_newest(page, run, body);
  } else {
    // The ranks get a third of the lines, the curve another third, and the events the rest.
    page.push_back(topology(run));
    append_ranks(page, run, options.first_rank, std::max(1, body / 3));
    const int height = std::min(kMaxCurveHeight, body / 3);
    for (auto& row : curve(run.losses(), options.width, height)) page.push_back(std::move(row));
    append_newest(page, run, options.height - 1 - static_cast<int>(page.size()));
  }
  page.resize(static_cast<std::size_t>(std::max(1, options.height - 1)));
  if (options.height > 1) page.push_back(footer(run, options));
  for (std::string& line : page) line = fitted(std::move(line), std::max(0, options.width));
  return page;
}

}  // namespace troupe::launch
