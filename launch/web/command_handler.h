#pragma once

#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "launch/control/run_port.h"
#include "launch/host/machine.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// A run as its page may reach it.
struct PageAccess {
  std::string token;  ///< the control socket's; empty: nobody may order anything
  RunPort run;
  std::function<Manifest()> manifest;  ///< resolved for the current shape; from any thread
  Machine machine = {};
};

/// Takes the orders of pages. All functions are callable from any thread.
class CommandHandler {
 public:
  static constexpr std::size_t kMostBytes = 64 * 1024;

  explicit CommandHandler(PageAccess access) : access_(std::move(access)) {}

  struct Answer {
    int status = 200;  ///< of HTTP
    nlohmann::json body;
  };
  /// Answers a request as the control socket takes them: {token, request, ...}, where the request
  /// is "stop", "save", "scale" with its fields, "preview" with those of a scale, which changes
  /// nothing, "trace" with {steps}, "tap" with {edge, backward}, or "greet", which only tries the
  /// token. The body is {text}, for a trace also {trace}, or {error}. `step_s` is the time of a
  /// step now.
  Answer answer(const std::string& request, double step_s);
  /// What became of the newest change or checkpoint that was ordered; empty: none was.
  std::string newest() const;

 private:
  nlohmann::json serve(const std::string& name, const nlohmann::json& request, double step_s);
  void scale(const actors::ScaleRequest& request);
  void save();
  /// Makes newest() a text about an order, from any thread and at any time.
  auto teller(const std::string& order) const {
    return [news = news_, order](const std::string& text) {
      const std::lock_guard lock(news->mutex);
      news->text = order + ": " + text;
    };
  }

  const PageAccess access_;
  // Shared with answers, which may come when the handler is gone.
  struct News {
    std::mutex mutex;
    std::string text;
  };
  const std::shared_ptr<News> news_ = std::make_shared<News>();
};

// What it does for those who wait for what is found.

/// What a change of the cluster would do, as `troupe plan` would tell of it, for people: shape,
/// memory, bubble and, from `step_s`, the time of a step now (0: not known), that of one then.
/// `now` is the manifest of the current shape. Throws Error{usage} or Error{manifest} where the
/// change would be refused.
std::string preview_of(const Manifest& now, const actors::ScaleRequest& request,
                       const Machine& machine, double step_s);
/// The next steps, as `troupe trace` writes them; `status` is RunPort::status. Throws
/// Error{usage} for a number of steps that is not 1 to 20, Error{unavailable} if none was complete
/// in time.
nlohmann::json trace_steps(actors::Hub& hub, const nlohmann::json& status, std::int64_t steps);
/// The next tensors of an edge, given as "0:1", in lines for people. Throws Error{usage} naming the
/// edges there are if it is none of them, Error{unavailable} if none came in time.
std::string tap_edge(actors::Hub& hub, const nlohmann::json& status, const std::string& edge,
                     bool backward);

}  // namespace troupe::launch
