#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "launch/control/control_client.h"
#include "launch/host/signals.h"
#include "launch/monitors/attachment.h"

// What commands share that need a run's launcher. Each throws Error{unavailable} if the run has
// ended, "nothing to stop: how it ended".

namespace troupe::launch {

/// Sends an order, "stop", to the run's launcher. Returns the open request.
std::unique_ptr<ControlClient> order(const std::string& run, const std::string& what,
                                     const nlohmann::json& fields = nlohmann::json::object());

/// Sends an order that the launcher answers once it is carried out. Returns the answer. There is no
/// limit for it: it takes a step, and the writing of files or the start of workers, whose times are
/// not known. Throws Error{unavailable} if the run ends before `change`, and for an order that
/// failed the Error that it answers.
nlohmann::json order_and_wait(const std::string& run, const std::string& what,
                              const std::string& change,
                              const nlohmann::json& fields = nlohmann::json::object());

/// Attaches to a live run, for `what`: "tap". `options.who` is made the name of this process.
std::unique_ptr<Attachment> attach(const std::string& run, const std::string& what,
                                   Attachment::Options options);

/// Waits for news of the run; none if a signal comes first.
std::optional<Attachment::News> next_news(Attachment& run, SignalFd& signals);

}  // namespace troupe::launch
