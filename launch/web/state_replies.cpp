#include "launch/web/state_replies.h"

#include <CivetServer.h>
#include <fmt/format.h>

#include <functional>

#include "launch/host/local_time.h"

namespace troupe::launch {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// The value of a field of a query; empty without.
std::string field_of(const std::string& query, const std::string& name) {
  std::string value;
  CivetServer::getParam(query, name.c_str(), value);
  return value;
}

json shape_of(const History& history) {
  if (history.shapes.empty()) return json::object();
  const ShapeSpan& now = history.shapes.back();
  return {{"pp", now.pp}, {"dp", now.dp}, {"tp", now.tp}, {"schedule", now.schedule}};
}

}  // namespace

const StateReplies::Drawn& StateReplies::drawn_for(const View& view) {
  Drawn& drawn = drawn_[view];
  const auto now = Clock::now();
  if (!drawn.parts.empty() && now - drawn.when < kFresh) return drawn;
  RunNow run = watch_.now(unix_seconds());
  if (run.picture && !run.history.shapes.empty())
    run.advice = advisor_.advice(run.history.shapes.back().text(), *run.picture);
  drawn.when = now;
  drawn.reply = {{"title", fmt::format("{}: {}", run.name, run.doing)},
                 {"ended", run.ended()},
                 {"shape", shape_of(run.history)},
                 {"parts", json::object()}};
  for (const auto& [id, markup] : parts_of(run, view))
    drawn.parts[id] = {fmt::format("{:x}", std::hash<std::string>()(markup)), markup};
  return drawn;
}

/// Null if it has no name, or there are too many.
StateReplies::Reader* StateReplies::reader_of(const std::string& name) {
  if (name.empty() || (readers_.size() >= kMostReaders && !readers_.contains(name))) return nullptr;
  return &readers_[name];
}

void StateReplies::begin(const std::string& query) {
  const std::string name = field_of(query, "reader");
  std::unique_lock lock(mutex_);
  Reader* reader = reader_of(name);
  if (!reader) return;
  const auto mine = ++reader->requests;
  told_.notify_all();
  if (field_of(query, "until") != "end" || waiting_ >= kMostWaiting) return;
  reader->asked = Clock::time_point::max();
  ++waiting_;
  told_.wait_for(lock, kWait, [&] {
    const auto found = readers_.find(name);
    return released_ || found == readers_.end() || found->second.requests != mine;
  });
  --waiting_;
  if (reader = reader_of(name); reader && reader->requests == mine) reader->asked = Clock::now();
}

json StateReplies::reply_to(const std::string& query) {
  const View view{.scale = field_of(query, "scale") == "log" ? Scale::logarithmic : Scale::linear,
                  .routine = field_of(query, "routine") == "yes"};
  const std::lock_guard lock(mutex_);
  const Drawn& drawn = drawn_for(view);
  json reply = drawn.reply;
  for (const auto& [id, part] : drawn.parts)
    if (const auto& [version, markup] = part; field_of(query, id) != version)
      reply["parts"][id] = {{"version", version}, {"markup", markup}};
  return reply;
}

void StateReplies::sent(const std::string& query, const json& reply) {
  const std::string name = field_of(query, "reader");
  const std::lock_guard lock(mutex_);
  if (reply.at("ended") == true) {
    readers_.erase(name);
    told_.notify_all();
  } else if (Reader* reader = reader_of(name);
             reader && reader->asked != Clock::time_point::max()) {
    reader->asked = Clock::now();
  }
}

bool StateReplies::all_have_end() {
  const auto now = Clock::now();
  std::erase_if(readers_, [&](const auto& reader) { return reader.second.asked < now - kLooking; });
  return readers_.empty();
}

void StateReplies::wait_for_readers(std::chrono::milliseconds limit) {
  release();
  std::unique_lock lock(mutex_);
  told_.wait_for(lock, limit, [this] { return all_have_end(); });
}

void StateReplies::release() {
  const std::lock_guard lock(mutex_);
  drawn_.clear();  // what was drawn last does not have the end yet
  released_ = true;
  told_.notify_all();
}

}  // namespace troupe::launch
