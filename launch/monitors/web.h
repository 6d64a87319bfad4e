#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/monitors/hub.h"
#include "launch/manifest/http_address.h"

namespace troupe::launch {

/// A page that shows the run in a browser: topology, timeline of a step, loss, events. Serves its
/// own page and one JSON object, reads nothing, and needs no file from elsewhere. While somebody
/// looks, the stages record their actions.
class WebPage {
 public:
  /// `run` is the name in the title, `hosts` as monitor.hosts says them. Throws Error{manifest}
  /// naming the address if it cannot be bound.
  WebPage(actors::Hub& hub, const HttpAddress& address, const std::string& run,
          const std::vector<std::string>& hosts = {});
  ~WebPage();
  /// "http://127.0.0.1:8080/"; for a page at all addresses, by a name of the machine.
  std::string url() const;

 private:
  struct Parts;
  class Handler;
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::launch
