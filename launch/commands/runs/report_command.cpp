#include <fmt/format.h>

#include <filesystem>

#include "launch/commands/options.h"
#include "launch/control/control_protocol.h"
#include "launch/host/console.h"
#include "launch/host/local_time.h"
#include "launch/report/run_page.h"
#include "launch/report/run_report.h"
#include "launch/run/result_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

/// Where the page goes. A file of another kind is not replaced, because a run directory is full of
/// files whose names are easily given by mistake.
fs::path page_path(const ReportOptions& options) {
  const fs::path path = options.output.empty() ? fs::path(options.runs.front()) / "report.html"
                                               : fs::path(options.output);
  std::error_code unknown;
  const bool special = fs::exists(path, unknown) && !fs::is_regular_file(path, unknown);
  if (special || path.extension() == ".html" || path.extension() == ".htm") return path;
  refuse(fmt::format("a report is a page of HTML: name it {}.html, not {}; --json prints its data",
                     path.stem().string(), path.string()));
}

}  // namespace

int run(const ReportOptions& options) {
  const bool several = options.runs.size() > 1;
  if (several && !options.json && options.output.empty())
    refuse("say where to write the report of several runs: -o FILE.html");
  const fs::path path = options.json ? fs::path() : page_path(options);
  const double now = unix_seconds();
  std::vector<RunReport> reports;
  for (const std::string& directory : options.runs)
    reports.push_back(read_report(directory, now, options.machine));
  if (options.json) {
    print(to_text(several ? to_json(reports) : to_json(reports.front())) + "\n");
    return 0;
  }
  ResultFile(path.string())
      .write(several ? comparison_page(reports, now) : run_page(reports.front(), now));
  print(path.string() + "\n");
  return 0;
}

}  // namespace troupe::launch
