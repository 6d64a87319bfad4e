#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launch/control/event_json.h"
#include "tests/support/temp_dir.h"

// launch/schemas/event.schema.json knows every kind of event and every field, also of those that a
// run rarely has. Their values are checked in tests/e2e/schemas_test.cpp.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(event_schema_test)

namespace {

using namespace actors;
using nlohmann::json;

json schema() {
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../../../launch/schemas";
  return json::parse(content_of(folder / "event.schema.json"));
}

/// A kind of event in the schema, and what it has in common with others.
std::vector<json> parts_of(const json& defs, const std::string& kind) {
  std::vector<json> parts{defs.at(kind)};
  for (const json& part : defs.at(kind).at("allOf")) {
    const std::string name = part.at("$ref");
    parts.push_back(defs.at(name.substr(name.rfind('/') + 1)));
  }
  return parts;
}

/// An event of each kind, with the fields that it always has.
template <std::size_t... kinds>
std::vector<RunEvent> one_of_each(std::index_sequence<kinds...>) {
  return {RunEvent{.rank = 0, .body = std::variant_alternative_t<kinds, EventBody>{}}...};
}

std::set<std::string> names_of(const json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_schema_lists_every_kind) {
  std::vector<std::string> expected;
  for (const std::string_view name : kEventNames)
    expected.push_back("#/$defs/" + std::string(name));
  expected.emplace_back("#/$defs/dropped");
  std::vector<std::string> listed;
  const json kinds = schema().at("oneOf");
  for (const json& kind : kinds) listed.push_back(kind.at("$ref"));
  BOOST_TEST(listed == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_schema_has_the_fields_of_every_kind) {
  const json defs = schema().at("$defs");
  for (const RunEvent& event : one_of_each(std::make_index_sequence<kNumEventKinds>())) {
    const std::string kind(kind_name(event));
    const std::set<std::string> has = names_of(launch::to_json(event));
    std::set<std::string> known;
    for (const json& part : parts_of(defs, kind)) known.merge(names_of(part.at("properties")));
    for (const std::string& name : has)
      BOOST_TEST(known.contains(name), kind << " has a field that the schema lacks: " << name);
    for (const json& part : parts_of(defs, kind))
      for (const std::string name : part.value("required", json::array()))
        BOOST_TEST(has.contains(name), kind << " lacks a field that the schema has: " << name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
