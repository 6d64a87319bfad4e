#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "launch/charts/markup.h"
#include "launch/charts/stacked_bar.h"
#include "launch/web/parts.h"

namespace troupe::launch {
namespace {

/// Beyond so many stages boxes have no room for words; hints tell them.
constexpr int kWordyStages = 8;
/// The classes of a rank's box in page.css, by RankMood.
constexpr std::array kLooks{"rank starts", "rank busy", "rank waits", "rank lost"};

std::string share_text(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

std::string box(const RunNow& run, const RankNow& rank, bool has_shards) {
  const double busy = busy_share(rank), collectives = collective_share(rank);
  const std::string name = fmt::format("rank {}", rank.rank);
  const std::string place = place_text(rank, has_shards) + host_text(run, rank);
  const std::string told = fmt::format(
      "{}: {}\n{}\nbusy {} of the newest step{}\nmemory {}\nprocess {} on {}", name, place,
      doing_of(rank), share_text(busy),
      collectives >= kNoticedWait ? ", waiting for collectives " + share_text(collectives) : "",
      memory_of(rank), rank.pid, rank.host);
  return element(
      "div",
      {{"class", kLooks[static_cast<std::size_t>(mood_of(rank))]},
       {"tabindex", "0"},
       {"role", "group"},
       {"aria-label", told},
       {"data-hint", told}},
      element("div", {{"class", "title"}},
              text_element("b", {}, name) + text_element("span", {}, share_text(busy) + " busy")) +
          text_element("div", {{"class", "place"}}, place) +
          stacked_bar("newest step",
                      {{.name = "busy", .value = busy, .text = share_text(busy)},
                       {.name = "waiting for collectives",
                        .value = collectives,
                        .text = share_text(collectives)}},
                      1) +
          element("div", {{"class", "title"}},
                  text_element("span", {{"class", "doing"}}, doing_of(rank)) +
                      text_element("span", {}, memory_of(rank))));
}

/// One direction of an arrow: the rate, and how much the receiver waits for it.
std::string direction(const Flow& flow, const char* look) {
  std::string out = text_element("span", {{"class", look}}, rate_text(flow.bytes_per_s));
  if (flow.wait_share >= kNoticedWait)
    out += text_element("span", {{"class", "late"}}, share_text(flow.wait_share) + " waited");
  return out;
}

std::string arrow(const RunNow& run, const StageRanks& left, const StageRanks& right) {
  const Flow forth = flow_between(run, left, right), back = flow_between(run, right, left);
  const int from = left.front()->stage, to = right.front()->stage;
  const auto told = [](const char* what, int sender, int receiver, const Flow& flow) {
    return fmt::format("{} from stage {} to {}: {}, for which the receiver waits {} of a step",
                       what, sender, receiver, rate_text(flow.bytes_per_s),
                       share_text(flow.wait_share));
  };
  const std::string text =
      told("activations", from, to, forth) + "\n" + told("gradients", to, from, back);
  return element("div",
                 {{"class", "arrow"}, {"data-hint", text}, {"role", "img"}, {"aria-label", text}},
                 direction(forth, "forth") + direction(back, "back"));
}

/// What travels beside the arrows, as between the last stage and the first of a schedule with
/// several chunks.
std::string other_flows(const RunNow& run, const std::map<int, StageRanks>& stages) {
  std::string text;
  for (const auto& [from, sender] : stages)
    for (const auto& [to, receiver] : stages) {
      if (std::abs(from - to) <= 1) continue;
      const Flow flow = flow_between(run, sender, receiver);
      if (flow.bytes_per_s > 0)
        text += fmt::format("{}stage {} to {}: {}", text.empty() ? "Also " : "; ", from, to,
                            rate_text(flow.bytes_per_s));
    }
  return text;
}

}  // namespace

std::string mesh_picture(const RunNow& run) {
  if (run.ranks.empty()) return text_element("p", {}, "No worker has joined yet.");
  const Mesh mesh = mesh_of(run.ranks);
  std::string rows, others;
  const int most_stages = num_stages(mesh);
  for (const auto& [replica, stages] : mesh) {
    std::string row;
    for (int number = 0; number < most_stages; ++number) {
      std::string boxes;
      if (const auto stage = stages.find(number); stage != stages.end())
        for (const RankNow* rank : stage->second)
          boxes += box(run, *rank, stage->second.size() > 1);
      row += element("div", {{"class", "stage"}}, boxes);
      if (number + 1 == most_stages) break;
      const auto ends = between(mesh, replica, number);
      row += ends ? arrow(run, ends->left, ends->right) : element("div", {{"class", "arrow"}}, "");
    }
    rows += element("div",
                    {{"class", "replica"},
                     {"role", "group"},
                     {"aria-label", fmt::format("replica {}", replica)}},
                    row);
    if (replica == 0) others = other_flows(run, stages);
  }
  return element("div", {{"class", most_stages > kWordyStages ? "mesh many" : "mesh"}}, rows) +
         (others.empty() ? "" : text_element("p", {}, others + "."));
}

}  // namespace troupe::launch
