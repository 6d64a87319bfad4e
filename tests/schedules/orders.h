#pragma once

#include <boost/test/unit_test.hpp>
#include <sstream>
#include <string>

#include "schedules/analysis/validate.h"
#include "schedules/generators/generators.h"

namespace troupe::schedules {

// Boost.Test prints what it compares.
inline std::ostream& operator<<(std::ostream& out, const Action& action) {
  return out << to_string(action);
}
inline std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  return out << to_csv(plan);
}

/// The plan of a schedule, which must know the shape.
inline Plan make(std::string_view kind, const ScheduleShape& shape) {
  const Generator* generator = find_generator(kind);
  BOOST_REQUIRE(generator != nullptr);
  BOOST_REQUIRE_EQUAL(generator->check(shape), "");
  return generator->generate(shape);
}

/// One rank's actions, separated by spaces.
inline std::string order(const Plan& plan, int rank) {
  std::string text;
  for (const Action& action : plan.actions.at(rank)) {
    text += (text.empty() ? "" : " ") + to_string(action);
  }
  return text;
}

/// A plan from a text with one line per rank, whose actions are separated by commas.
inline Plan plan_of(std::string_view csv) {
  auto parsed = parse_csv(csv);
  const auto* wrong = std::get_if<PlanError>(&parsed);
  BOOST_REQUIRE_MESSAGE(wrong == nullptr, (wrong ? wrong->message : ""));
  return std::get<Plan>(std::move(parsed));
}

inline std::string rule_broken(const Plan& plan, Purpose purpose = Purpose::training) {
  const auto wrong = validate(plan, purpose);
  return wrong ? wrong->rule : "";
}

}  // namespace troupe::schedules
