#include "actors/hosts/agent_calls.h"

#include <algorithm>
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <thread>

#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"
#include "actors/messages/start_deadline.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// Calls `act` with each number below `count`, on several threads.
void for_each_of(std::size_t count, const std::function<void(std::size_t)>& act) {
  constexpr std::size_t kMostThreads = 32;
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(count, kMostThreads); ++i)
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < count; at = next++) act(at);
    });
}

class Inquiry : public AgentInquiry {
 public:
  Inquiry(const Credentials& own, const std::vector<AgentRecord>& agents)
      : agents_(agents), token_(own.token), links_(system_, Role::director, own) {
    reached_.resize(agents.size());
  }

  std::vector<std::optional<AgentState>> ask() override {
    std::vector<std::optional<AgentState>> answers(agents_.size());
    for_each_of(agents_.size(), [&](std::size_t i) {
      if (!reached_[i]) try {
          reached_[i] = links_.connect(agents_[i].address, agents_[i].port, kCallPatience);
        } catch (const Error&) {
          return;
        }
      caf::scoped_actor self{system_};
      self->request(caf::actor_cast<AgentRef>(reached_[i]), kCallPatience,
                    AskAgent{.token = token_})
          .receive(
              [&](const AgentState& state) {
                if (!state.hello.host.name.empty()) answers[i] = state;
              },
              [&](const caf::error&) { reached_[i] = nullptr; });
    });
    return answers;
  }

 private:
  const std::vector<AgentRecord> agents_;
  const std::string token_;
  ControlPlaneConfig config_{1};
  caf::actor_system system_{config_};
  SecureLinks links_;
  std::vector<caf::actor> reached_;  // by record
};

}  // namespace

void call_agents(SecureLinks& links, const std::vector<AgentRecord>& agents,
                 const std::function<void(const AgentRecord&, const caf::actor& agent,
                                          const std::string& fault)>& on_call) {
  for_each_of(agents.size(), [&](std::size_t i) {
    const AgentRecord& record = agents[i];
    caf::actor agent;
    std::string fault;
    try {
      agent = links.connect(record.address, record.port, kCallPatience);
    } catch (const Error& error) {
      fault = error.what();
    }
    on_call(record, agent, fault);
  });
}

std::unique_ptr<AgentInquiry> AgentInquiry::create(const Credentials& own,
                                                   const std::vector<AgentRecord>& agents) {
  const StartDeadline deadline;
  return std::make_unique<Inquiry>(own, agents);
}

}  // namespace troupe::actors
