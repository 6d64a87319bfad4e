#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/charts/axis.h"
#include "launch/charts/curve.h"
#include "launch/report/run_report.h"

namespace troupe::launch {

/// The axis of steps that all runs fit.
Axis step_axis(std::span<const RunReport> runs);
/// Losses of a run.
struct Losses {
  std::string name;  ///< of the run
  Curve training;
  std::vector<Point> evaluations;
};
std::vector<Losses> losses_of(std::span<const RunReport> runs);
/// Losses in training and evaluation, as measured and smoothed, with a legend.
std::string loss_chart(std::vector<Losses> runs, const Axis& steps, Scale scale = Scale::linear);
/// The cluster's shapes, and what happened at which step, below a chart over the same steps.
std::string history_chart(const History& history, const Axis& steps, std::int64_t last_step);
/// A small chart of a figure of one or several runs by step, under its name, from 0 on. Empty if
/// there are no points.
std::string small_chart(const char* name, std::vector<Curve> curves, const Axis& steps);
/// Losses of a mixture's sources, smoothed, and their shares; empty without a mixture.
std::string source_chart(std::vector<NamedLosses> sources, const Axis& steps);
/// Losses on several evaluation sets; empty without.
std::string set_chart(std::vector<NamedLosses> sets, const Axis& steps);
/// Speed, norm of the gradient, learning rate, model FLOP utilization, and of experts the loss of
/// routers and the largest load, a small chart each.
std::string small_charts(std::span<const RunReport> runs, const Axis& steps);
/// Some steps of a curve in numbers, for those who do not see it.
std::string loss_numbers(const RunReport& run);

}  // namespace troupe::launch
