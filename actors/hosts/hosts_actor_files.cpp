#include <utility>

#include "actors/hosts/hosts_actor.h"
#include "actors/hosts/run_files_actor.h"
#include "tensor/errors/error.h"

// How hosts come to the files of a run.

namespace troupe::actors {

void HostsActor::take(const FilesOffer& offer) {
  offer_ = offer;
  if (!run_files_)
    run_files_ = spawn<RunFilesActor, caf::detached>(offer, context_.own_threads.token());
}

/// Asks a host that comes when the run has begun what it sees of the run's files. It is brought
/// what it does not, and then admitted.
void HostsActor::equip(const HostAdmitted& newcomer) {
  Agent* agent = agent_of(newcomer.host.name);
  if (!agent || !offer_) return admit(newcomer);
  agent->joins = newcomer;
  send(agent->actor, question_of(*offer_));
}

void HostsActor::on_seen(const FilesSeen& seen) {
  const Agent* agent = sender();
  if (!agent) return;
  context_.registry.see(agent->host, seen);
  if (!agent->joins) return;
  const FilesAway away = away_of(*offer_, seen);
  if (const auto why = actors::refusal_of(*offer_, away)) return refuse(*agent, *why);
  bring(agent->host, away);
}

void HostsActor::bring(const std::string& host, FilesAway away) {
  Agent* agent = agent_of(host);
  if (!agent) return;
  away.source = run_files_;
  send(agent->actor, away);
}

void HostsActor::on_brought(const FilesBrought& brought) {
  Agent* agent = sender();
  if (!agent) return;
  parts_.erase(agent->host);
  if (brought.parts) parts_[agent->host] = brought.parts;
  context_.registry.bring(agent->host, brought.error);
  if (!agent->joins) return;
  if (!brought.error.empty()) return refuse(*agent, brought.error);
  const HostAdmitted newcomer = *std::exchange(agent->joins, std::nullopt);
  admit(newcomer);
}

/// Turns a host away that the director does not know of yet.
void HostsActor::refuse(const Agent& agent, std::string why) {
  const int code = static_cast<int>(ErrorKind::unavailable);
  context_.registry.refuse(agent.host, why);
  send(agent.actor, Dismissed{.exit_code = code, .reason = std::move(why)});
  forget(agent.host);
}

PartHolders HostsActor::holders_among(const std::vector<std::string>& hosts) {
  PartHolders found;
  for (const std::string& host : hosts)
    if (const auto parts = parts_.find(host); parts != parts_.end())
      found.holders.push_back({.host = host, .parts = parts->second});
  return found;
}

}  // namespace troupe::actors
