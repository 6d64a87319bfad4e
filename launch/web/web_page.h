#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/monitors/hub.h"
#include "launch/manifest/http_address.h"
#include "launch/manifest/peak_rate.h"

namespace troupe::launch {

/// A page that shows the run in a browser: topology, timeline of a step, loss, events. It serves
/// the page and one JSON object, takes no input, and needs no file from elsewhere. While a browser
/// shows the page, the stages record their actions.
class WebPage {
 public:
  /// `run` is the name in the page's title, and `hosts` the value of monitor.hosts. Throws
  /// Error{manifest} naming the address if it cannot be bound.
  WebPage(actors::Hub& hub, const HttpAddress& address, const std::string& run,
          const std::vector<std::string>& hosts = {}, const PeakRate& peak = {});
  ~WebPage();
  /// The page's URL: "http://127.0.0.1:8080/". If the page is bound to all addresses, the URL has a
  /// name of the machine.
  std::string url() const;

 private:
  struct Parts;
  class Handler;
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::launch
