#pragma once

#include <memory>

#include "tests/transport/ucx/child_process.h"
#include "transport/node/ucx_node.h"

namespace troupe::test {

/// Connects the test's node, rank 0, with its child, rank 1.
inline void introduce(transport::UcxNode& node, const ChildProcess& child,
                      std::uint64_t incarnation) {
  node.connect(1, incarnation, child.socket().receive());
  child.socket().send(node.address());
}

/// In the child: a node of rank 1 that is connected to its parent's.
inline std::unique_ptr<transport::UcxNode> node_of_child(const TestSocket& parent) {
  auto node = transport::UcxNode::create({.environment = transport::prepare_ucx()});
  parent.send(node->address());
  node->connect(0, 1, parent.receive());
  return node;
}

}  // namespace troupe::test
