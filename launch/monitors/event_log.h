#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/monitors/subscriber_thread.h"
#include "stages/storage/claim.h"

namespace troupe::launch {

/// Writes events.jsonl: a line for every event but steps, evaluations and periodic activity. It is
/// a monitor like any other: on a full disk lines are lost and counted, and the run goes on.
class EventLog {
 public:
  /// `print_error` is called from the log's own thread with a line for people, once each time that
  /// writing begins to fail. Nothing is written once the claim to the directory has fallen.
  EventLog(actors::Hub& hub, const std::filesystem::path& path,
           std::function<void(const std::string&)> print_error, stages::Claim claim = {});

 private:
  void consume(const actors::Subscription::Batch& batch);
  bool append(const std::string& line);
  void missed(std::uint64_t lines, const std::string& why);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::filesystem::path path_;
  const std::function<void(const std::string&)> print_error_;
  const stages::Claim claim_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t missing_ = 0;  // lines lost since the last written one
  // Declared last, so that it ends before the members that it uses.
  actors::SubscriberThread thread_;
};

}  // namespace troupe::launch
