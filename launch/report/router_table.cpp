#include "launch/report/router_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "launch/charts/markup.h"

namespace troupe::launch {
namespace {

using Router = actors::StepReport::Router;

/// By expert, in multiples of the even load.
std::vector<double> relative_loads(const Router& router) {
  const double all = std::accumulate(router.load.begin(), router.load.end(), 0.0);
  std::vector<double> loads;
  for (const double load : router.load)
    loads.push_back(load * static_cast<double>(router.load.size()) / all);
  return loads;
}

std::string loads_text(const std::vector<double>& loads) {
  constexpr std::size_t kMostShown = 16;
  if (loads.size() > kMostShown) return fmt::format("{} experts", loads.size());
  return fmt::format("{:.2f}", fmt::join(loads, " "));
}

}  // namespace

double busiest_expert(const std::vector<Router>& routers) {
  double busiest = NAN;
  for (const Router& router : routers)
    for (const double load : relative_loads(router)) busiest = std::fmax(busiest, load);
  return busiest;
}

std::string router_table(const std::vector<Router>& routers) {
  Table table{.caption = "Loads of experts",
              .head = {"layer", "least", "most", "by expert, 1: even", "entropy", "balance"},
              .numbers = {0, 1, 2, 4, 5}};
  for (const Router& router : routers) {
    const std::vector<double> loads = relative_loads(router);
    if (loads.empty()) continue;
    const auto [least, most] = std::ranges::minmax(loads);
    table.rows.push_back({std::to_string(router.layer), fmt::format("{:.2f}", least),
                          fmt::format("{:.2f}", most), loads_text(loads),
                          fmt::format("{:.3f}", router.entropy),
                          fmt::format("{:.3f}", router.balance)});
  }
  if (table.rows.empty()) return "";
  return text_element("h3", {}, "loads of experts in the newest step") + draw_table(table);
}

}  // namespace troupe::launch
