#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launch/report/host_table.h"
#include "launch/screen/panes.h"

namespace troupe::launch {
namespace {

constexpr int kLeastBox = 6;  // columns of a rank
constexpr int kBusyText = 5;  // columns of "100 %"
constexpr int kFramedColumns = 14, kFramedRows = 5;
constexpr int kMostRows = 6;     // of a rank
constexpr int kArrow = 3;        // columns between stages
constexpr int kWordyArrow = 13;  // with what they send each other
constexpr int kWordyBox = 18;    // least columns of a rank beside such an arrow
constexpr int kHostsShare = 3;   // of the rows hosts take one at most

struct RankSign {
  char32_t mark;
  Look look;
};

/// By RankMood.
constexpr std::array kRankSigns{RankSign{U'\u25cb', Look::soft},     // an empty circle
                                RankSign{U'\u25cf', Look::live},     // a full circle
                                RankSign{U'\u25cc', Look::waiting},  // a circle of dots
                                RankSign{U'\u00d7', Look::bad}};     // a cross

/// What names of ranks tell.
struct RankNames {
  bool shards = false;
  bool hosts = false;
};

const RankSign& sign_of(const RankNow& rank) {
  return kRankSigns[static_cast<std::size_t>(mood_of(rank))];
}

/// The longest way to say what a rank does that fits.
std::string doing_within(const RankNow& rank, int columns) {
  const std::string all = doing_of(rank);
  if (columns_of(all) <= columns || rank.waiting_for.empty()) return cut(all, columns);
  const std::size_t peer = all.find("rank "), end = all.find(':');
  if (peer != std::string::npos && peer < end)
    for (const char* way : {"waits for ", "\u2190 "})
      if (const std::string text = way + all.substr(peer, end - peer); columns_of(text) <= columns)
        return text;
  return cut("waits", columns);
}

/// The rank's name, with its place in the mesh and its host, if they are told, as far as they fit.
std::string name_within(const RankNow& rank, const RankNames& names, int columns) {
  const std::string name = fmt::format("rank {}", rank.rank);
  const std::string host = names.hosts ? " on " + rank.host : "";
  for (const std::string& all : {name + ": " + place_text(rank, names.shards) + host, name + host})
    if (columns_of(all) <= columns) return all;
  return name;
}

/// A bar of the busy share with its number, as far as it fits.
void draw_busy(Canvas& box, int x, int y, const RankNow& rank, int end) {
  const std::string text = fmt::format("{:.0f} %", 100 * busy_share(rank));
  const int bar = end - x - columns_of(text) - 1;
  if (bar >= 2) box.bar(x, x + bar, y, busy_share(rank), sign_of(rank).look);
  if (end - x >= columns_of(text)) box.text_before(end, y, text);
}

void draw_frame(Canvas& box, Style style) {
  const int right = box.width() - 1, bottom = box.height() - 1;
  for (const int y : {0, bottom}) box.fill(1, right, y, {.glyph = U'\u2500', .style = style});
  for (int y = 1; y < bottom; ++y)
    for (const int x : {0, right}) box.put(x, y, {.glyph = U'\u2502', .style = style});
  box.put(0, 0, {.glyph = U'\u256d', .style = style});
  box.put(right, 0, {.glyph = U'\u256e', .style = style});
  box.put(0, bottom, {.glyph = U'\u2570', .style = style});
  box.put(right, bottom, {.glyph = U'\u256f', .style = style});
}

/// A rank with a frame: name, busy share, what it does, memory.
void draw_framed(Canvas box, const RankNow& rank, const RankNames& names) {
  const RankSign& sign = sign_of(rank);
  draw_frame(box, {.look = sign.look});
  box.put(2, 0, {.glyph = sign.mark, .style = {.look = sign.look, .bold = true}});
  const int x = box.text(3, 0, " " + name_within(rank, names, box.width() - 7), {.bold = true});
  box.text(x, 0, " ");
  const int inner = box.width() - 4;
  draw_busy(box, 2, 1, rank, 2 + inner);
  const auto lines = wrapped(doing_of(rank), inner);
  const int room = box.height() - 4;  // without the frame, the bar and the memory
  if (std::ssize(lines) <= room)
    for (int i = 0; i < std::ssize(lines); ++i)
      box.text(2, 2 + i, lines[static_cast<std::size_t>(i)], {.look = sign.look});
  else
    box.text(2, 2, doing_within(rank, inner), {.look = sign.look});
  box.text(2, box.height() - 2, cut(memory_of(rank), inner), {.look = Look::soft});
}

/// A rank in few lines: what fits of the same.
void draw_plain(Canvas box, const RankNow& rank, const RankNames& names) {
  const RankSign& sign = sign_of(rank);
  const std::string number = std::to_string(rank.rank);
  const int room = box.width() - kBusyText - 3;
  const std::string name = " " + name_within(rank, names, room);
  const bool roomy = box.height() > 1 && columns_of(name) - 1 <= room;
  box.put(0, 0, {.glyph = sign.mark, .style = {.look = sign.look, .bold = true}});
  int x = box.text(1, 0, roomy ? name : number, {.bold = true}) + 1;
  if (box.height() > 2) x = std::max(x, box.width() - kBusyText);  // the bar has a line of its own
  draw_busy(box, x, 0, rank, box.width());
  int y = 1;
  if (box.height() > 2) box.bar(0, box.width(), y++, busy_share(rank), sign.look);
  box.text(0, y++, doing_within(rank, box.width()), {.look = sign.look});
  box.text(0, y, cut(memory_of(rank), box.width()), {.look = Look::soft});
}

/// Where the boxes of a mesh are.
struct Boxes {
  int per_row = 1;  ///< stages beside each other
  int rows = 0;     ///< rows of boxes
  int gap = 0;      ///< blank rows before every replica but the first
  int arrow = 0;
  int width = 0, height = 0;  ///< of a box
};

Boxes boxes_of(const Canvas& canvas, const Mesh& mesh) {
  const int stages = std::max(1, num_stages(mesh));
  Boxes boxes;
  const auto width_with = [&](int arrow, int across) {
    return (canvas.width() - arrow * (across - 1)) / across;
  };
  const int most = std::max(1, (canvas.width() + kArrow) / (kLeastBox + kArrow));
  const int lines = (stages + most - 1) / most;
  boxes.per_row = (stages + lines - 1) / lines;
  boxes.arrow = width_with(kWordyArrow, boxes.per_row) >= kWordyBox ? kWordyArrow : kArrow;
  boxes.width = std::min(width_with(boxes.arrow, boxes.per_row), 2 * kWordyBox + 4);
  for (const auto& [replica, row] : mesh) {
    int shards = 1;
    for (const auto& [stage, ranks] : row)
      shards = std::max(shards, static_cast<int>(ranks.size()));
    const int last = row.empty() ? 0 : row.rbegin()->first;
    boxes.rows += shards * (last / boxes.per_row + 1);
  }
  boxes.height = std::clamp(canvas.height() / std::max(1, boxes.rows), 1, kMostRows);
  const int gaps = static_cast<int>(mesh.size()) - 1;
  boxes.gap = boxes.rows * boxes.height + gaps <= canvas.height() ? 1 : 0;
  return boxes;
}

/// What goes to and fro between two stages.
void draw_arrow(Canvas arrow, const RunNow& run, const StageRanks& left, const StageRanks& right) {
  if (arrow.width() < kWordyArrow || arrow.height() < kFramedRows) {
    arrow.text(arrow.width() / 2, arrow.height() > 2 ? 1 : 0, "\u2192", {.look = Look::soft});
    return;
  }
  const Flow forth = flow_between(run, left, right), back = flow_between(run, right, left);
  const auto line = [&](int y, const std::string& text, Look look) {
    arrow.text((arrow.width() - columns_of(text)) / 2, y, text, {.look = look});
  };
  line(1, "\u2192 " + rate_text(forth.bytes_per_s), Look::soft);
  line(2, "\u2190 " + rate_text(back.bytes_per_s), Look::soft);
  const double wait = std::max(forth.wait_share, back.wait_share);
  if (wait >= kNoticedWait) line(3, fmt::format("{:.0f} % waited", 100 * wait), Look::waiting);
}

void draw_rank(const Canvas& box, const RankNow& rank, const RankNames& names) {
  if (box.height() >= kFramedRows && box.width() >= kFramedColumns)
    draw_framed(box, rank, names);
  else
    draw_plain(box, rank, names);
}

/// A replica's stages from line `top` on, which may be above the canvas. Returns the line below
/// them.
int draw_replica(const Canvas& canvas, const RunNow& run, const Mesh& mesh, int replica,
                 const Boxes& boxes, int top) {
  int below = top;
  const std::map<int, StageRanks>& stages = mesh.at(replica);
  const int last = std::min(num_stages(mesh) - 1, stages.rbegin()->first + 1);
  for (int number = 0; number <= last; ++number) {
    const int column = number % boxes.per_row;
    if (column == 0) top = below;
    const int x = column * (boxes.width + boxes.arrow);
    const auto place = [&](int at, int y, int width) {
      return canvas.part({at, y, width, y < 0 ? 0 : boxes.height});
    };
    if (const auto ends = column > 0 ? between(mesh, replica, number - 1) : std::nullopt)
      draw_arrow(place(x - boxes.arrow, top, boxes.arrow), run, ends->left, ends->right);
    const auto stage = stages.find(number);
    if (stage == stages.end()) continue;
    const StageRanks& ranks = stage->second;
    for (std::size_t shard = 0; shard < ranks.size(); ++shard) {
      const int y = top + static_cast<int>(shard) * boxes.height;
      draw_rank(place(x, y, boxes.width), *ranks[shard],
                {.shards = ranks.size() > 1, .hosts = run.history.hosts.size() > 1});
      below = std::max(below, y + boxes.height);
    }
  }
  return below;
}

/// Lost hosts first, because there may be no room for all.
int order_of(const HostLine& host) {
  return host.state == "lost" ? 0 : host.state == "draining" ? 1 : host.state == "joined" ? 2 : 3;
}

Look look_of(const HostLine& host) {
  constexpr std::array kLooks{Look::bad, Look::waiting, Look::plain, Look::soft};
  return kLooks[static_cast<std::size_t>(order_of(host))];
}

/// "h1 joined  ranks 2-3  shm 1.5 MiB  tcp 412.0 KiB  lost 1 time".
std::string words_of(const HostLine& host) {
  std::string text = fmt::format("{} {}  ranks {}", host.host, host.state, host.ranks);
  if (!host.within.empty()) text += "  shm " + host.within;
  if (!host.to_others.empty()) text += "  tcp " + host.to_others;
  if (!host.losses.empty()) text += "  lost " + host.losses;
  return host.cause.empty() ? text : text + ": " + host.cause;
}

/// The hosts of a run on several at the bottom of the pane, in a third of it at most. Returns what
/// is left above.
Canvas draw_hosts(const Canvas& canvas, const RunNow& run) {
  std::vector<HostLine> hosts = host_table(run.hosts());
  std::ranges::stable_sort(hosts, {}, order_of);
  const int room = canvas.height() / kHostsShare;
  const int lines = std::min(static_cast<int>(hosts.size()), room);
  const int top = canvas.height() - lines;
  Canvas below = canvas.part({0, top, canvas.width(), lines});
  for (int y = 0; y < lines; ++y) {
    const HostLine& host = hosts[static_cast<std::size_t>(y)];
    const auto hidden = std::ssize(hosts) - lines;
    const std::string text = y + 1 == lines && hidden > 0
                                 ? fmt::format("and {} more hosts", hidden + 1)
                                 : words_of(host);
    below.text(0, y, cut(text, below.width()), {.look = look_of(host)});
  }
  return canvas.part({0, 0, canvas.width(), top});
}

}  // namespace

int draw_mesh(const Canvas& canvas, const RunNow& run, const PaneView& view) {
  Canvas inner = titled(canvas, "mesh", run.shape(), view);
  if (inner.width() < 1 || inner.height() < 1) return 0;
  if (run.ranks.empty()) {
    inner.text(0, 0, cut("No worker has joined yet.", inner.width()), {.look = Look::soft});
    return 0;
  }
  inner = draw_hosts(inner, run);
  const Mesh mesh = mesh_of(run.ranks);
  const Boxes boxes = boxes_of(inner, mesh);
  const int most = std::max(0, boxes.rows - inner.height() / boxes.height);
  int top = -std::min(view.scroll, most) * boxes.height;
  for (const auto& [replica, stages] : mesh)
    top = draw_replica(inner, run, mesh, replica, boxes, top) + boxes.gap;
  return most;
}

}  // namespace troupe::launch
