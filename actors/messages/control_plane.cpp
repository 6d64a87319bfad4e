#include "actors/messages/control_plane.h"

#include <caf/config.hpp>
#include <caf/io/middleman.hpp>
#include <exception>

#include "tensor/errors/shortage.h"

namespace troupe::actors {
namespace {

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    return actors::text_of(e);
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

std::string text_of(const std::exception& exception) {
  const auto lacks = as_shortage(exception);
  return lacks ? lacks->what() : exception.what();
}

std::string caf_version() {
  return std::to_string(CAF_MAJOR_VERSION) + '.' + std::to_string(CAF_MINOR_VERSION) + '.' +
         std::to_string(CAF_PATCH_VERSION);
}

ControlPlaneConfig::ControlPlaneConfig(std::size_t num_threads) {
  load<caf::io::middleman>();
  set("scheduler.policy", caf::atom("sharing"));
  set("scheduler.max-threads", num_threads);
  set("middleman.workers", std::size_t{1});
  set("middleman.heartbeat-interval", caf::timespan{std::chrono::seconds(1)});
  set("middleman.connection-timeout", caf::timespan{std::chrono::seconds(60)});
  add_message_type<Hello>("Hello");
  add_message_type<Welcome>("Welcome");
  add_message_type<Join>("Join");
  add_message_type<Halt>("Halt");
  add_message_type<Peers>("Peers");
  add_message_type<Moves>("Moves");
  add_message_type<BeginConfiguration>("BeginConfiguration");
  add_message_type<WarmUp>("WarmUp");
  add_message_type<Warm>("Warm");
  add_message_type<RunStep>("RunStep");
  add_message_type<Commit>("Commit");
  add_message_type<Save>("Save");
  add_message_type<Evaluate>("Evaluate");
  add_message_type<Finish>("Finish");
  add_message_type<Halted>("Halted");
  add_message_type<Ready>("Ready");
  add_message_type<Prepared>("Prepared");
  add_message_type<TracedActions>("TracedActions");
  add_message_type<Tapped>("Tapped");
  add_message_type<ParameterHistograms>("ParameterHistograms");
  add_message_type<Copied>("Copied");
  add_message_type<Saved>("Saved");
  add_message_type<Evaluated>("Evaluated");
  add_message_type<Failed>("Failed");
  add_message_type<Heartbeat>("Heartbeat");
  add_messages_of_agents();
}

void ControlPlaneConfig::add_messages_of_agents() {
  add_message_type<HostHello>("HostHello");
  add_message_type<HostWelcome>("HostWelcome");
  add_message_type<StartWorker>("StartWorker");
  add_message_type<StopWorkers>("StopWorkers");
  add_message_type<AgentBeat>("AgentBeat");
  add_message_type<DirectorBeat>("DirectorBeat");
  add_message_type<WorkerEnded>("WorkerEnded");
  add_message_type<HostLeaves>("HostLeaves");
  add_message_type<FilesWanted>("FilesWanted");
  add_message_type<FilesSeen>("FilesSeen");
  add_message_type<Dismissed>("Dismissed");
  add_message_type<SurveyBegun>("SurveyBegun");
  add_message_type<HostSurveyed>("HostSurveyed");
  add_message_type<ProbeLinks>("ProbeLinks");
  add_message_type<LinksProbed>("LinksProbed");
  add_message_type<SurveyEnded>("SurveyEnded");
  add_message_type<ListingWanted>("ListingWanted");
  add_message_type<Listing>("Listing");
  add_message_type<BlockWanted>("BlockWanted");
  add_message_type<Block>("Block");
  add_message_type<FilesNeeded>("FilesNeeded");
  add_message_type<FilesHere>("FilesHere");
  add_message_type<FilesAway>("FilesAway");
  add_message_type<FilesBrought>("FilesBrought");
  add_message_type<PartsDropped>("PartsDropped");
  add_message_type<LogTail>("LogTail");
  add_message_type<AskAgent>("AskAgent");
  add_message_type<AgentState>("AgentState");
  add_message_type<TakeOver>("TakeOver");
  add_message_type<TakenOver>("TakenOver");
  add_message_type<RunBegins>("RunBegins");
  add_message_type<Resident>("Resident");
  add_message_type<NewDirector>("NewDirector");
  add_message_type<Rejoin>("Rejoin");
}

ControlActor::ControlActor(caf::actor_config& config) : caf::event_based_actor(config) {
  set_default_handler([](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
    return caf::sec::unexpected_message;
  });
  set_error_handler([this](caf::error& error) {
    const bool is_ours = current_sender() && current_sender()->node() == node();
    const std::string what = system().render(error);
    is_ours ? on_failure(what) : on_error_of_peer(what);
  });
  set_down_handler([this](caf::down_msg& down) { on_down(down.source); });
  set_exit_handler([this](caf::exit_msg& exit) {
    const bool is_ours = exit.source && exit.source.node() == node();
    if (is_ours && exit.reason == caf::exit_reason::user_shutdown) quit();
  });
  set_exception_handler([this](std::exception_ptr& exception) -> caf::error {
    on_failure(text_of(exception));
    return caf::none;
  });
}

}  // namespace troupe::actors
