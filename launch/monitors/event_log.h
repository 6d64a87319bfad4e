#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/monitors/subscriber_thread.h"

namespace troupe::launch {

/// events.jsonl: a line for everything that happens beside the steps themselves. A monitor like any
/// other: a full disk costs lines, which are counted, and the run goes on.
class EventLog {
 public:
  /// `print_error` gets a line for people, once for each time that writing begins to fail; from the
  /// log's own thread.
  EventLog(actors::Hub& hub, const std::filesystem::path& path,
           std::function<void(const std::string&)> print_error);

 private:
  void consume(const actors::Subscription::Batch& batch);
  bool append(const std::string& line);
  void missed(std::uint64_t lines, const std::string& why);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::filesystem::path path_;
  const std::function<void(const std::string&)> complain_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t missing_ = 0;        // lines lost since the last one that was written
  actors::SubscriberThread thread_;  // last: ends before what it uses
};

}  // namespace troupe::launch
