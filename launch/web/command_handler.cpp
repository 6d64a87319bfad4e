#include "launch/web/command_handler.h"

#include <fmt/format.h>

#include <memory>

#include "launch/control/control_protocol.h"
#include "launch/control/request_fields.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

using nlohmann::json;

CommandHandler::Answer CommandHandler::answer(const std::string& request, double step_s) {
  const auto trusted =
      access_.token.empty() ? std::nullopt : authenticated_request(request, access_.token);
  if (!trusted)
    return {.status = 403,
            .body = {
                {"error",
                 "this is not the token of this run; it is in control.json of the run directory"}}};
  try {
    return {.status = 200, .body = serve(trusted->at("request"), *trusted, step_s)};
  } catch (const Error& error) {
    return {.status = 400, .body = {{"error", error.what()}}};
  }
}

json CommandHandler::serve(const std::string& name, const json& request, double step_s) {
  if (name == "greet" || name == "save" || name == "stop") refuse_other_fields(request, {});
  if (name == "greet") return {{"text", ""}};
  if (name == "preview")
    return {
        {"text", preview_of(access_.manifest(), parse_scale(request), access_.machine, step_s)}};
  if (name == "scale") {
    scale(parse_scale(request));
    return {{"text", "ordered"}};
  }
  if (name == "save") {
    save();
    return {{"text", "ordered: a checkpoint of this step"}};
  }
  if (name == "stop") {
    access_.run.stop("stopped from the page");
    return {{"text", "ordered: the run ends after this step"}};
  }
  if (name == "trace") {
    refuse_other_fields(request, {"steps"});
    const auto steps = count_field(request, "steps");
    if (!steps) refuse("steps is missing: how many are traced");
    return {{"text", "traced; open the file with ui.perfetto.dev"},
            {"trace", trace_steps(*access_.run.hub, access_.run.status(), *steps)}};
  }
  if (name == "tap") {
    refuse_other_fields(request, {"edge", "backward"});
    const auto edge = filled_field(request, "edge");
    if (!edge) refuse("edge is missing: which one is tapped, as \"0:1\"");
    return {{"text", tap_edge(*access_.run.hub, access_.run.status(), *edge,
                              flag_field(request, "backward").value_or(false))}};
  }
  refuse(
      fmt::format("no order is called '{}'; there are greet, preview, save, scale, stop, "
                  "tap and trace",
                  name));
}

void CommandHandler::scale(const actors::ScaleRequest& request) {
  const std::string order = actors::to_string(request);
  if (order.empty()) refuse("nothing to change: fill in at least one field");
  const auto tell = teller(order);
  tell("under way");
  access_.run.scale(request, [tell](const actors::ScaleAnswer& answer) {
    tell((answer.code == 0 ? "" : "refused: ") + answer.text);
  });
}

void CommandHandler::save() {
  const auto tell = teller("checkpoint");
  tell("under way");
  access_.run.save([tell](const actors::SaveAnswer& answer) {
    tell(answer.code == 0 ? fmt::format("step {} is saved", answer.step)
                          : "refused: " + answer.text);
  });
}

std::string CommandHandler::newest() const {
  const std::lock_guard lock(news_->mutex);
  return news_->text;
}

}  // namespace troupe::launch
