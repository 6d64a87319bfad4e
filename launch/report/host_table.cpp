#include "launch/report/host_table.h"

#include <cstdint>

#include "launch/charts/markup.h"
#include "launch/host/quantities.h"
#include "launch/manifest/inputs/placement.h"
#include "launch/report/run_page.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {
namespace {

std::string sent_text(std::uint64_t bytes) {
  return bytes == 0 ? "" : bytes_text(static_cast<std::int64_t>(bytes));
}

}  // namespace

std::string ranks_in_words(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges_text(ranks);
}

std::vector<HostLine> host_table(const std::vector<actors::HostStatus>& hosts) {
  std::vector<HostLine> lines;
  if (hosts.size() < 2) return lines;
  for (const actors::HostStatus& host : hosts)
    lines.push_back({.host = host.host,
                     .state = host.state,
                     .ranks = host.ranks.empty() ? "none" : ranges_text(host.ranks),
                     .within = sent_text(host.host_bytes),
                     .to_others = sent_text(host.network_bytes),
                     .losses = host.losses == 0 ? "" : schedules::counted(host.losses, "time"),
                     .cause = host.cause});
  return lines;
}

std::string hosts_markup(const std::vector<actors::HostStatus>& hosts) {
  Table table{
      .caption = "Hosts", .head = {kHostColumns.begin(), kHostColumns.end()}, .numbers = {3, 4}};
  for (const HostLine& line : host_table(hosts)) {
    table.rows.emplace_back();
    for (const std::string& cell : line.cells()) table.rows.back().push_back(escaped(cell));
  }
  return draw_table(table);
}

std::string hosts_section(const RunReport& run) {
  const std::string table = hosts_markup(hosts_of(run));
  if (table.empty()) return "";
  return section("Hosts",
                 paragraph("What ranks sent to each other is a mean over the steps of the newest "
                           "shape: in shared memory within a host, by TCP between hosts.") +
                     table);
}

}  // namespace troupe::launch
