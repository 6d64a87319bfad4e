#include "launch/monitors/event_fields.h"

#include <limits>

namespace troupe::launch {
namespace {

using nlohmann::json;

/// A field of an event; JSON null if it is missing or the event is not an object.
const json& field_of(const json& event, const char* field) {
  static const json kNone;
  const auto at = event.find(field);
  return at != event.end() ? *at : kNone;
}

}  // namespace

double number_of(const json& event, const char* field) {
  const json& value = field_of(event, field);
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t integer_of(const json& event, const char* field, std::int64_t otherwise) {
  const json& value = field_of(event, field);
  return value.is_number_integer() ? value.get<std::int64_t>() : otherwise;
}

std::string text_of(const json& event, const char* field) {
  const json& value = field_of(event, field);
  return value.is_string() ? value.get<std::string>() : "";
}

bool flag_of(const json& event, const char* field) {
  const json& value = field_of(event, field);
  return value.is_boolean() && value.get<bool>();
}

std::vector<json> objects_of(const json& event, const char* field) {
  std::vector<json> objects;
  const json& value = field_of(event, field);
  if (!value.is_array()) return objects;
  for (const json& each : value)
    if (each.is_object()) objects.push_back(each);
  return objects;
}

std::vector<actors::SetLoss> set_losses(const json& evaluation) {
  std::vector<actors::SetLoss> losses;
  for (const json& set : objects_of(evaluation, "sets"))
    losses.push_back({.name = text_of(set, "name"), .loss = number_of(set, "loss")});
  return losses;
}

}  // namespace troupe::launch
