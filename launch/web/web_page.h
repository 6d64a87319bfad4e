#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/monitors/hub.h"
#include "launch/manifest/checks/http_address.h"
#include "launch/watch/run_watch.h"
#include "launch/web/command_handler.h"

namespace troupe::launch {

/// A page that shows the run in a browser. It serves one file, which needs no other one, and the
/// parts that change, drawn by the code of reports, and takes orders of those who have the run's
/// token. While a browser shows the page, the ranks record their actions.
class WebPage {
 public:
  /// `hosts` is the value of monitor.hosts. Throws Error{manifest} naming the address if it cannot
  /// be bound. The hub must outlive the page.
  WebPage(actors::Hub& hub, const HttpAddress& address, const WatchedRun& run,
          const std::vector<std::string>& hosts = {}, PageAccess access = {});
  ~WebPage();
  /// Shows that the run has ended, and waits until every reader has seen it, for two seconds at
  /// most.
  void finish(const actors::Outcome& outcome);
  /// The page's URL: "http://127.0.0.1:8080/". If the page is bound to all addresses, the URL has a
  /// name of the machine.
  std::string url() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::launch
