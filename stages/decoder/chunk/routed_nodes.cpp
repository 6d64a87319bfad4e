#include "stages/decoder/chunk/sublayer_place.h"

// The nodes of sublayers whose rows travel to experts of other replicas: dispatch and combine, each
// with what a collective needs before it, and their mirror. A travel's start and what reads its
// result are nodes apart, so that the nodes of another pass come between them (arXiv 2412.19437).

namespace troupe::stages {

using Place = SublayerPlace;

namespace {

/// Counts are exchanged before rows are, because as many travel as the routers chose.
void add_dispatch(NodeList& nodes, const Place& place) {
  nodes.forward([place](const NodeCall& call) { place.layer().route_rows(place.forward(call)); });
  nodes.collective(
      [place](const NodeCall& call) { return place.layer().gather_offsets(place.forward(call)); });
  nodes
      .collective(
          [place](const NodeCall& call) { return place.layer().send_weights(place.forward(call)); })
      .starts = &PendingCollectives::row_weights;
  nodes.collective(
      [place](const NodeCall& call) { return place.layer().send_rows(place.forward(call)); });
}

}  // namespace

void add_travelling_products(NodeList& nodes, const Place& place, bool without_output) {
  if (!place.again) add_dispatch(nodes, place);
  Node& experts = nodes.forward([place, without_output](const NodeCall& call) {
    place.layer().compute_received(place.forward(call));
    if (!without_output) place.layer().compute_results(place.forward(call));
  });
  if (!place.again) experts.waits[1] = &PendingCollectives::row_weights;
  if (without_output) return;
  nodes.collective(
      [place](const NodeCall& call) { return place.layer().return_results(place.forward(call)); });
  nodes
      .forward([place](const NodeCall& call) { place.layer().collect_output(place.forward(call)); })
      .brief = true;
}

void add_travelling_gradient(NodeList& nodes, const Place& place, bool reads) {
  Node& route = nodes.input_gradient(
      [place](const NodeCall& call) { place.layer().route_gradient(place.backward(call)); });
  route.brief = true;
  route.reads_output_gradient = reads;
  nodes.reduce_gradient(
      [place](const NodeCall& call) { return place.layer().send_gradient(place.backward(call)); });
  nodes.input_gradient(
      [place](const NodeCall& call) { place.layer().received_gradient(place.backward(call)); });
  nodes.reduce_gradient([place](const NodeCall& call) {
    return place.layer().return_weights_gradient(place.backward(call));
  });
  nodes
      .reduce_gradient([place](const NodeCall& call) {
        return place.layer().return_rows_gradient(place.backward(call));
      })
      .starts = &PendingCollectives::row_gradient;
  nodes
      .input_gradient(
          [place](const NodeCall& call) { place.layer().router_gradient(place.backward(call)); })
      .brief = true;
}

void add_returned_gradient(NodeList& nodes, const Place& place) {
  Node& returned = nodes.input_gradient(
      [place](const NodeCall& call) { place.layer().collect_gradient(place.backward(call)); });
  returned.brief = true;
  returned.waits = {&PendingCollectives::row_gradient};
}

}  // namespace troupe::stages
