// The bubble rates of arXiv 2401.10241, Tables 5 and 8, and the closed forms that agree with them.

#include <algorithm>
#include <random>

#include "schedules/analysis/simulate.h"
#include "schedules/generators/zb_search.h"
#include "tests/schedules/orders.h"
#include "tests/schedules/random_plans.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(published_tables_test)

using namespace troupe::schedules;

namespace {

constexpr double kPrinted = 5e-5;  ///< four decimals

/// The profiled times of a setting in ms, as the authors' scripts have them: of a stage in Table 5,
/// of one of two chunks in Table 8 (sail-sg/zero-bubble-pipeline-parallelism, v_schedule.py).
struct Setting {
  int p, m;
  double f, i, w, hop;
  int v;  ///< chunks of a stage under 1F1B-I
};

/// Bubble rates in the order of the tables' columns.
struct Row {
  Setting setting;
  double one_f_one_b, interleaved, zb_h1, zb_h2;
  double zb_1p, zb_2p;  ///< of Table 5
  double zb_v;          ///< of Table 8
};

const Row kTable5[] = {
    {{8, 24, 18.522, 18.086, 9.337, 0.601, 3}, .2431, .1055, .1585, .1083, .1585, .0433, 0},
    {{8, 32, 18.513, 18.086, 9.331, 0.626, 3}, .1985, .0818, .1242, .0837, .1242, .0039, 0},
    {{8, 64, 18.546, 18.097, 9.321, 0.762, 3}, .1240, .0443, .0674, .0444, .0674, .0026, 0},
    {{8, 24, 29.718, 29.444, 19.927, 0.527, 4}, .2347, .0808, .1323, .0698, .1323, .0029, 0},
    {{8, 32, 29.802, 29.428, 19.530, 0.577, 4}, .1898, .0628, .1045, .0559, .1045, .0022, 0},
    {{8, 64, 29.935, 29.621, 19.388, 0.535, 4}, .1091, .0320, .0554, .0294, .0554, .0010, 0},
    {{16, 48, 11.347, 11.248, 8.132, 0.377, 3}, .2552, .1104, .1397, .0672, .1397, .0066, 0},
    {{16, 64, 11.307, 11.254, 8.101, 0.379, 3}, .2082, .0852, .1088, .0516, .1088, .0054, 0},
    {{16, 128, 11.325, 11.308, 8.109, 0.378, 3}, .1251, .0445, .0576, .0266, .0576, .0028, 0},
    {{32, 96, 10.419, 10.207, 7.715, 0.408, 2}, .2646, .1493, .1421, .0641, .1421, .0038, 0},
    {{32, 128, 10.408, 10.204, 7.703, 0.408, 2}, .2168, .1164, .1106, .0490, .1106, .0029, 0},
    {{32, 256, 10.402, 10.248, 7.698, 0.460, 2}, .1352, .0624, .0594, .0257, .0594, .0018, 0},
};

const Row kTable8[] = {
    {{16, 48, 14.407, 14.380, 9.676, 1.610, 2}, .2668, .1499, .1536, .0823, 0, 0, .0697},
    {{16, 64, 14.412, 14.393, 9.688, 1.621, 2}, .2206, .1169, .1198, .0630, 0, 0, .0533},
    {{16, 128, 14.316, 14.306, 9.639, 1.619, 2}, .1390, .0621, .0637, .0325, 0, 0, .0274},
    {{24, 72, 6.763, 6.969, 5.251, 0.755, 2}, .2699, .1519, .1439, .0628, 0, 0, .0638},
    {{24, 96, 6.783, 6.984, 5.259, 0.758, 2}, .2229, .1184, .1121, .0480, 0, 0, .0483},
    {{24, 192, 6.785, 6.990, 5.260, 0.770, 2}, .1403, .0630, .0595, .0247, 0, 0, .0250},
    {{32, 96, 9.458, 9.748, 7.288, 0.879, 2}, .2676, .1509, .1429, .0629, 0, 0, .0593},
    {{32, 128, 9.469, 9.744, 7.306, 0.892, 2}, .2204, .1177, .1111, .0478, 0, 0, .0451},
    {{32, 256, 9.447, 9.644, 7.193, 0.887, 2}, .1362, .0626, .0593, .0251, 0, 0, .0236},
};

ScheduleShape shape_of(const Setting& s, int chunks, double scale) {
  const std::string costs = "F=" + std::to_string(scale * s.f) +
                            ",I=" + std::to_string(scale * s.i) +
                            ",W=" + std::to_string(scale * s.w) + ",hop=" + std::to_string(s.hop);
  return {.stages = s.p,
          .chunks = chunks,
          .microbatches = s.m,
          .costs = std::get<WholeCosts>(parse_costs(costs, chunks)).costs};
}

double bubble_rate(std::string_view kind, const ScheduleShape& shape) {
  return simulate(make(kind, shape), shape.costs)->bubble_rate;
}

/// The authors let only the first microbatch of a group of p wait for the edge from the last rank
/// to the first; in this plan every one waits, which takes p hops more.
double interleaved_as_printed(const ScheduleShape& shape) {
  const auto full = simulate(make("interleaved", shape), shape.costs);
  const double ideal = full->span * (1 - full->bubble_rate);
  return 1 - ideal / (full->span - shape.stages * shape.costs.hop);
}

/// Checks that a searched plan is legal, under its cap, and no worse than the printed one.
void check_search(std::string_view kind, const ScheduleShape& shape, double cap, double printed) {
  const Plan plan = make(kind, shape);
  BOOST_TEST(rule_broken(in_order(plan)) == "");
  BOOST_TEST(std::ranges::max(peak_memory(plan)) <= cap);
  const double rate = simulate(plan, shape.costs)->bubble_rate;
  BOOST_TEST(rate <= printed + kPrinted, kind << " has " << rate << " instead of " << printed);
}

void check_hand_made(const Row& row, double scale) {
  const ScheduleShape shape = shape_of(row.setting, 1, scale);
  for (const auto& [kind, printed] :
       {std::pair("1f1b", row.one_f_one_b), {"zb-h1", row.zb_h1}, {"zb-h2", row.zb_h2}}) {
    const double rate = bubble_rate(kind, shape);
    BOOST_TEST(std::abs(rate - printed) <= kPrinted, kind << " has " << rate);
  }
  const double rate = interleaved_as_printed(shape_of(row.setting, row.setting.v, scale));
  BOOST_TEST(std::abs(rate - row.interleaved) <= kPrinted, "interleaved has " << rate);
}

/// Spans beyond the ideal, and the largest hop for which they hold.
struct ClosedForm {
  std::string_view kind;
  int least_rounds;  ///< m is at least this number times p
  bool any_m;        ///< if false, m is a multiple of p
  double (*beyond)(const ScheduleShape& shape, const StageCosts& cost, double hop);
  double (*most_hop)(const ScheduleShape& shape, const StageCosts& cost);
};

double total(const StageCosts& cost) {
  return cost.forward + cost.input_gradient + cost.weight_gradient;
}

const ClosedForm kForms[] = {
    {"gpipe", 1, true,
     [](const ScheduleShape& s, const StageCosts& cost, double hop) {
       return (s.stages - 1) * (total(cost) + 2 * hop);
     },
     [](const ScheduleShape&, const StageCosts& cost) { return total(cost); }},
    {"1f1b", 1, false,
     [](const ScheduleShape& s, const StageCosts& cost, double hop) {
       const int p = s.stages, rounds = s.microbatches / p;
       return (p - 1) * total(cost) + hop * 2 * ((p - 1) * rounds + p - 2);
     },
     [](const ScheduleShape& s, const StageCosts& cost) { return total(cost) / s.stages; }},
    {"interleaved", 1, false,
     [](const ScheduleShape& s, const StageCosts& cost, double hop) {
       return (s.stages - 1) * total(cost) / s.chunks + hop * (2 * s.stages * s.chunks - 2);
     },
     [](const ScheduleShape& s, const StageCosts& cost) {
       return std::min(cost.forward, cost.input_gradient + cost.weight_gradient) / s.chunks /
              s.stages;
     }},
    {"zb-h1", 2, true,
     [](const ScheduleShape& s, const StageCosts& cost, double hop) {
       return (s.stages - 1) * (total(cost) - 2 * cost.weight_gradient + 4 * hop);
     },
     [](const ScheduleShape&, const StageCosts& cost) { return cost.weight_gradient / 2; }},
    {"zb-h2", 2, true,
     [](const ScheduleShape& s, const StageCosts& cost, double hop) {
       return (s.stages - 1) * (total(cost) - 3 * cost.weight_gradient + 2 * hop);
     },
     [](const ScheduleShape&, const StageCosts& cost) { return cost.weight_gradient; }},
};

/// Random whole costs with W <= F and 2W <= F + I.
StageCosts random_costs(Random& random, int chunks) {
  const int f = pick(random, 1, 1000), i = pick(random, 1, 1000);
  const int w = pick(random, 1, std::max(1, std::min(f, (f + i) / 2)));
  return {.forward = 1.0 * chunks * f,
          .input_gradient = 1.0 * chunks * i,
          .weight_gradient = 1.0 * chunks * w};
}

}  // namespace

BOOST_AUTO_TEST_CASE(bubble_rates_of_table_5) {
  for (const Row& row : kTable5)
    BOOST_TEST_CONTEXT("p " << row.setting.p << " m " << row.setting.m << " F " << row.setting.f) {
      check_hand_made(row, 1);
      const ScheduleShape shape = shape_of(row.setting, 1, 1);
      check_search("zb-1p", shape, row.setting.p, row.zb_1p);
      check_search("zb-2p", shape, 2 * row.setting.p, row.zb_2p);
    }
}

BOOST_AUTO_TEST_CASE(bubble_rates_of_table_8) {
  for (const Row& row : kTable8)
    BOOST_TEST_CONTEXT("p " << row.setting.p << " m " << row.setting.m << " F " << row.setting.f) {
      check_hand_made(row, 2);
      check_search("zb-v", shape_of(row.setting, 2, 2), row.setting.p, row.zb_v);
    }
}

BOOST_AUTO_TEST_CASE(small_hops_cost_what_the_closed_forms_say) {
  const std::uint64_t seed = troupe::test::fresh_seed();
  Random random(seed);
  for (const ClosedForm& form : kForms)
    for (int round = 0; round < 200; ++round) {
      ScheduleShape shape{.stages = pick(random, 2, 16)};
      if (form.kind == "interleaved") shape.chunks = pick(random, 2, 4);
      const int p = shape.stages;
      shape.microbatches = form.any_m ? pick(random, form.least_rounds * p, 4 * p)
                                      : p * pick(random, form.least_rounds, 4);
      const StageCosts cost = random_costs(random, shape.chunks);
      const double hop = pick(random, 0, static_cast<int>(form.most_hop(shape, cost)));
      const auto out = simulate(make(form.kind, shape), {.stages = {cost}, .hop = hop});
      BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << form.kind << " p " << p << " v "
                                             << shape.chunks << " m " << shape.microbatches)
      BOOST_TEST(out->span == shape.microbatches * total(cost) + form.beyond(shape, cost, hop));
    }
}

BOOST_AUTO_TEST_SUITE_END()
