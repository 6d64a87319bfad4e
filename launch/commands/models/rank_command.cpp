#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "launch/commands/models/evaluation.h"
#include "launch/commands/models/generation.h"
#include "launch/commands/models/model_ranks.h"
#include "launch/commands/options.h"
#include "tensor/errors/shortage.h"

// A rank of `generate` or `eval`, which the command has started.

namespace troupe::launch {
namespace {

void follow(MessageSocket& leader) {
  actors::ModelRank peers(transport::prepare_ucx());
  leader.write({{"address", peers.address()}});
  const auto task = leader.read();
  if (!task) return;
  OwnRank rank(task->at("rank").get<RankSpec>(), &peers,
               task->at("addresses").get<std::vector<std::string>>());
  const nlohmann::json& work = task->at("work");
  if (task->at("command") == kEvaluation)
    follow_evaluation(rank, work.get<EvaluationWork>());
  else
    follow_generation(rank, work.get<GenerationWork>(), leader);
  if (actors::StageEdges* const edges = peers.stages()) edges->flush();
  while (leader.read()) {  // until the command has what this rank has sent
  }
}

int tell(MessageSocket& leader, const Error& error) {
  leader.write({{"error", error.what()}, {"kind", error.kind()}});
  return static_cast<int>(error.kind());
}

}  // namespace

int run(const RankOptions&) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the command ended before, its end of the socket is closed
  MessageSocket leader(STDIN_FILENO);
  try {
    follow(leader);
    return 0;
  } catch (const Error& error) {
    return tell(leader, error);
  } catch (const std::exception& error) {
    const auto lacks = as_shortage(error);
    if (!lacks) throw;
    return tell(leader, *lacks);
  }
}

}  // namespace troupe::launch
