#include <boost/test/unit_test.hpp>

#include "schedules/analysis/validate.h"
#include "schedules/drawing/draw.h"
#include "tests/schedules/random_plans.h"

BOOST_AUTO_TEST_SUITE(plan_fuzz_test)

using namespace troupe::schedules;

namespace {

/// Checks that for any text every function on plans ends with a result or a reason.
void survive(const std::string& text) {
  const auto parsed = parse_csv(text);
  if (const auto* error = std::get_if<PlanError>(&parsed)) {
    BOOST_TEST(error->line >= 1);
    BOOST_TEST(error->column >= 1);
    BOOST_TEST(error->column <= static_cast<int>(text.size()) + 1);
    BOOST_TEST(!error->message.empty());
    return;
  }
  const Plan& plan = std::get<Plan>(parsed);
  BOOST_TEST((std::get<Plan>(parse_csv(to_csv(plan))) == plan));
  const Plan sorted = in_order(plan);
  BOOST_TEST((in_order(sorted) == sorted));
  for (const Purpose purpose : {Purpose::training, Purpose::forward_only}) {
    const auto wrong = validate(sorted, purpose);
    if (wrong) {
      BOOST_TEST(wrong->rule.starts_with("SCHED-"));
      BOOST_TEST(!wrong->message.empty());
      continue;
    }
    BOOST_TEST(capacities(sorted).size() == static_cast<std::size_t>(sorted.num_chunks()));
    const auto simulation = simulate(sorted, Costs{});
    BOOST_REQUIRE(simulation.has_value());
    BOOST_TEST(!to_grid(sorted, *simulation).empty());
    BOOST_TEST(!to_svg(sorted, *simulation).empty());
  }
}

void mutate(std::string& text, Random& random) {
  constexpr std::string_view kLetters = "0123456789FBIW,,(;)\n\n \r-+x\xff";
  const auto place = [&] { return pick(random, 0, static_cast<int>(text.size())); };
  switch (pick(random, 0, 4)) {
    case 0:
      text.insert(text.begin() + place(), kLetters[pick(random, 0, kLetters.size() - 1)]);
      break;
    case 1:
      text.erase(place(), pick(random, 1, 4));
      break;
    case 2:
      text.insert(place(), text.substr(place(), pick(random, 1, 12)));
      break;
    case 3:
      if (!text.empty())
        text[pick(random, 0, text.size() - 1)] = kLetters[pick(random, 0, kLetters.size() - 1)];
      break;
    default:
      text.insert(place(), std::to_string(std::uniform_int_distribution<std::int64_t>()(random)));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(mutated_plans) {
  for (int seed = 0; seed < 3000; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      std::string text = to_csv(random_plan(random));
      for (int round = pick(random, 1, 6); round > 0; --round) mutate(text, random);
      survive(text);
    }
  }
}

BOOST_AUTO_TEST_CASE(random_bytes) {
  for (int seed = 0; seed < 2000; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      std::string text(pick(random, 0, 64), '\0');
      for (char& letter : text) letter = static_cast<char>(pick(random, 0, 255));
      survive(text);
    }
  }
}

BOOST_AUTO_TEST_CASE(shuffled_actions) {
  for (int seed = 0; seed < 1000; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      Plan plan = random_plan(random);
      for (auto& order : plan.actions) {
        if (pick(random, 0, 1)) std::shuffle(order.begin(), order.end(), random);
      }
      survive(to_csv(plan));
    }
  }
}

BOOST_AUTO_TEST_CASE(actions_paired_at_random) {
  int valid = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      Plan plan = random_plan(random);
      for (auto& order : plan.actions) {
        for (std::size_t i = 0; i + 1 < order.size(); ++i) {
          const bool paired = i > 0 && order[i - 1].overlaps_next;
          const bool fits = order[i].op == Op::F &&
                            order[i].microbatch != order[i + 1].microbatch &&
                            (order[i + 1].op == Op::B || order[i + 1].op == Op::I);
          order[i].overlaps_next = fits && !paired && pick(random, 0, 2) > 0;
        }
      }
      valid += !validate(in_order(plan), Purpose::training).has_value();
      std::string text = to_csv(plan);
      survive(text);
      mutate(text, random);
      survive(text);
    }
  }
  BOOST_TEST(valid > 100);
  BOOST_TEST(valid < 1000);
}

BOOST_AUTO_TEST_SUITE_END()
