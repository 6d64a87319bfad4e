#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launch/control/control_client.h"
#include "launch/run/outcome.h"

namespace troupe::launch {

/// A monitor's connection to a running run. Events are JSON objects as event_json.h makes them.
/// Leaving, by destroying it, has no effect on the run, and neither has not reading.
class Attachment {
 public:
  struct Options {
    std::string kinds;             ///< "step,failure"; empty: all
    std::string who;               ///< a name for the run's own records
    nlohmann::json tap = nullptr;  ///< launch/control/tap_request.h; null: none
  };
  /// What has come since the last call.
  struct News {
    std::vector<nlohmann::json> events;  ///< oldest first
    std::uint64_t dropped = 0;           ///< events lost before these, because they were not read
    std::optional<Ending> ended;         ///< the run is over: nothing will come
  };

  /// Attaches, or tells how the run ended where it has. Throws Error as ask_run, and
  /// Error{unavailable} with the run's reason if it serves no more readers.
  static std::variant<std::unique_ptr<Attachment>, Ending> open(const std::filesystem::path& run,
                                                                const Options& options);

  /// The run's status when the attachment began, as `troupe status --json` prints it.
  const nlohmann::json& status() const { return status_; }
  /// Readable when there is news.
  int fd() const { return client_->fd(); }
  /// Takes what is here, without waiting.
  News take();
  /// Waits until there is news.
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
