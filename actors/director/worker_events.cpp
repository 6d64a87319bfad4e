#include "actors/director/worker_events.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {

TensorTapped to_event(const Tapped& tapped) {
  TensorTapped event{.to = tapped.to,
                     .backward = tapped.backward,
                     .microbatch = tapped.microbatch,
                     .summary = {.elements = tapped.elements,
                                 .not_finite = tapped.not_finite,
                                 .norm = to_double(tapped.norm),
                                 .mean = to_double(tapped.mean),
                                 .min = to_double(tapped.min),
                                 .max = to_double(tapped.max)},
                     .file = tapped.file,
                     .error = tapped.error};
  std::copy_n(tapped.histogram.begin(),
              std::min(tapped.histogram.size(), event.summary.histogram.size()),
              event.summary.histogram.begin());
  return event;
}

ParametersSeen to_event(const ParameterHistograms& histograms) {
  ParametersSeen event;
  for (const ParameterHistograms::Row& row : histograms.rows) {
    ValueHistogram part{.elements = row.elements,
                        .not_finite = row.not_finite,
                        .min = to_double(row.min),
                        .max = to_double(row.max),
                        .sum = to_double(row.sum),
                        .squares = to_double(row.squares)};
    for (std::size_t i = 0; i < row.bins.size(); ++i) part.counts[row.bins[i]] += row.counts[i];
    event.rows.push_back({.tensor = row.tensor,
                          .is_gradient = row.is_gradient,
                          .whole = row.whole,
                          .part = std::move(part)});
  }
  return event;
}

ActionsTraced to_event(const TracedActions& actions) {
  ActionsTraced event{.complete = actions.complete};
  for (const TracedActions::Row& row : actions.rows)
    event.actions.push_back({.name = row.name,
                             .begin_s = to_double(row.begin_s),
                             .end_s = to_double(row.end_s),
                             .from = row.from,
                             .to = row.to,
                             .waited_s = to_double(row.waited_s),
                             .collective_s = to_double(row.collective_s),
                             .sent_s = to_double(row.sent_s)});
  for (const TracedActions::Collective& collective : actions.collectives)
    event.collectives.push_back({.group = collective.group,
                                 .operation = collective.operation,
                                 .bucket = collective.bucket,
                                 .begin_s = to_double(collective.begin_s),
                                 .end_s = to_double(collective.end_s)});
  return event;
}

}  // namespace troupe::actors
