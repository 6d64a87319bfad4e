#include "stages/chunk/pending_collectives.h"

namespace troupe::stages {

using Work = Node::Work;

PendingCollective started_by(Pass pass, const Node& node) {
  if (!starts_collective(node.work)) return nullptr;
  if (pass == Pass::forward) return &PendingCollectives::forward;
  if (node.again) return &PendingCollectives::again;
  switch (node.work) {
    case Work::gather_gradient:
      return &PendingCollectives::gradient;
    case Work::gather_input_again:
      return &PendingCollectives::input;
    default:
      return &PendingCollectives::reduced;
  }
}

std::array<PendingCollective, 2> read_by(Pass pass, const Node& node) {
  if (pass == Pass::forward) return {&PendingCollectives::forward, nullptr};
  if (node.again) return {&PendingCollectives::again, nullptr};
  switch (node.work) {
    case Work::gather_input_again:
    case Work::reduce_gradient:
      return {};
    case Work::gather_gradient:
      return {&PendingCollectives::reduced, nullptr};
    case Work::input_gradient:
      return {&PendingCollectives::gradient, &PendingCollectives::reduced};
    default:
      return {&PendingCollectives::gradient, &PendingCollectives::input};
  }
}

}  // namespace troupe::stages
