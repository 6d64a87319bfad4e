#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launch/run/outcome.h"

namespace troupe::launch {

class ControlClient;

/// A monitor's connection to a live run. Events are JSON objects as made by event_json.h. Neither
/// destroying the connection nor leaving it unread has an effect on the run.
class Attachment {
 public:
  struct Options {
    std::string kinds;             ///< kinds of events, as "step,failure"; empty: all
    std::string who;               ///< the monitor's name in the run's records
    nlohmann::json tap = nullptr;  ///< a tap as in launch/control/tap_request.h; null: none
  };
  /// The events that have arrived since the last call.
  struct News {
    std::vector<nlohmann::json> events;  ///< events, oldest first
    /// Events lost before these, because the monitor did not read in time.
    std::uint64_t dropped = 0;
    /// How the run ended, after its last event; none while it goes on.
    std::optional<Ending> ended;
  };

  /// Attaches to a run, or returns how it ended if it has. Throws the errors of ask_run(), and
  /// Error{unavailable} with the run's reason if it serves no more readers.
  static std::variant<std::unique_ptr<Attachment>, Ending> open(const std::filesystem::path& run,
                                                                const Options& options);

  ~Attachment();

  /// The run's status when the attachment began, as `troupe status --json` prints it.
  const nlohmann::json& status() const { return status_; }
  /// A descriptor that is readable when events have arrived.
  int fd() const;
  /// Takes the events that have arrived, without waiting.
  News take();
  /// Waits until events arrive or the run ends.
  News wait();

 private:
  Attachment(std::filesystem::path run, std::unique_ptr<ControlClient> client,
             nlohmann::json status);
  void read_frame(const nlohmann::json& frame, News& news);

  const std::filesystem::path run_;
  const std::unique_ptr<ControlClient> client_;
  const nlohmann::json status_;
};

}  // namespace troupe::launch
