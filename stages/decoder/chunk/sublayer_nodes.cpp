#include "stages/decoder/chunk/sublayer_place.h"

namespace troupe::stages {
namespace {

using tensor::Tensor;
using Place = SublayerPlace;

Module norm_of(Branch branch) {
  return branch == Branch::attention ? Module::attention_norm : Module::feed_forward_norm;
}
Module end_norm_of(Branch branch) {
  return branch == Branch::attention ? Module::attention_end_norm : Module::feed_forward_end_norm;
}
Module module_of(Branch branch) {
  return branch == Branch::attention ? Module::attention : Module::feed_forward;
}

/// From the input of the first product to what the core keeps, and what `ends` computes after it in
/// the same node.
template <typename Ends>
void add_products(NodeList& nodes, const Place& place, Ends ends) {
  if (!place.sums_heads()) {
    nodes.forward([place, ends](const NodeCall& call) {
      place.layer().forward_product(place.forward(call));
      place.layer().forward_hidden(place.forward(call));
      ends(call);
    });
    return;
  }
  nodes.forward(
      [place](const NodeCall& call) { place.layer().forward_product(place.forward(call)); });
  nodes.collective(
      [place](const NodeCall& call) { return place.layer().reduce_squares(place.forward(call)); });
  nodes.forward([place, ends](const NodeCall& call) {
    place.layer().forward_hidden(place.forward(call));
    ends(call);
  });
}

/// What a backward computes again of a sublayer whose output nobody reads again.
void add_forward_without_output(NodeList& nodes, const Place& place) {
  if (!place.form().has_end_norm)
    return add_products(nodes, place, [place](const NodeCall& call) {
      place.layer().forward_kept(place.forward(call));
    });
  add_products(nodes, place, [place](const NodeCall& call) {
    place.layer().forward_branch(place.forward(call));
  });
  if (!nodes.is_divided()) return;
  nodes.collective(
      [place](const NodeCall& call) { return place.layer().reduce_output(place.forward(call)); });
  nodes.forward([place](const NodeCall& call) { place.layer().finish_branch(place.forward(call)); })
      .brief = true;
}

/// Of what the shards have computed, or of what their routers have done.
void add_sum(NodeList& nodes, const Place& place) {
  if (!place.keeps_tokens())
    nodes.collective(
        [place](const NodeCall& call) { return place.layer().reduce_output(place.forward(call)); });
  else if (!place.again)
    nodes.collective(
        [place](const NodeCall& call) { return place.layer().sum_load(place.forward(call)); });
}

void add_forward(NodeList& nodes, const Place& place, bool without_output) {
  nodes.set_module(norm_of(place.branch), place.block);
  nodes
      .forward([place](const NodeCall& call) {
        place.keep_input_part(call);
        place.layer().forward_norm(place.forward(call));
      })
      .brief = true;
  nodes.set_module(module_of(place.branch), place.block);
  const bool travels = place.exchanges_rows();
  if (nodes.is_split() && !(travels && place.again) && !place.keeps_tokens())
    nodes.collective(
        [place](const NodeCall& call) { return place.layer().gather_input(place.forward(call)); });
  if (travels) {
    add_travelling_products(nodes, place, without_output);
    if (without_output) return;
  } else {
    if (without_output) return add_forward_without_output(nodes, place);
    add_products(nodes, place, [place](const NodeCall& call) {
      place.layer().forward_output(place.forward(call));
    });
  }
  if (!nodes.is_divided()) return;
  add_sum(nodes, place);
  nodes
      .forward([place](const NodeCall& call) {
        place.layer().finish_output(place.forward(call));
        if (place.branch == Branch::feed_forward) place.chunk->send_output(call, place.block + 1);
      })
      .brief = true;
}

/// What is computed again of one sublayer, but for whole layers.
void add_recomputation(NodeList& nodes, Place place) {
  const Recompute::Mode mode = place.chunk->recompute.mode;
  const ActivationGroups discarded = discarded_by(mode);
  if (mode == Recompute::Mode::full) return;
  if (!discarded.outputs && !(discarded.core && place.branch == Branch::attention)) return;
  place.again = true;
  nodes.set_again(true);
  nodes.set_module(module_of(place.branch), place.block);
  nodes.forward([place, discarded](const NodeCall& call) {
    place.layer().recompute(discarded, place.forward(call));
  });
  nodes.set_again(false);
}

/// To what the last product gives, where that has a gradient of its own.
void add_branch_gradient(NodeList& nodes, const Place& place) {
  if (!place.form().changes_branch()) return;
  nodes.set_module(end_norm_of(place.branch), place.block);
  Node& branch = nodes.input_gradient(
      [place](const NodeCall& call) { place.layer().branch_gradient(place.backward(call)); });
  branch.brief = true;
  branch.reads_output_gradient = place.reads_output_gradient();
}

/// Of both products and the core.
void add_products_gradient(NodeList& nodes, const Place& place, bool reads_output_gradient) {
  if (!place.sums_heads()) {
    nodes
        .input_gradient([place](const NodeCall& call) {
          place.layer().core_gradient(place.backward(call));
          place.layer().input_gradient(place.backward(call));
        })
        .reads_output_gradient = reads_output_gradient;
    return;
  }
  nodes
      .input_gradient(
          [place](const NodeCall& call) { place.layer().core_gradient(place.backward(call)); })
      .reads_output_gradient = reads_output_gradient;
  nodes.reduce_gradient(
      [place](const NodeCall& call) { return place.layer().reduce_dots(place.backward(call)); });
  nodes.input_gradient(
      [place](const NodeCall& call) { place.layer().input_gradient(place.backward(call)); });
}

void add_weight_gradient(NodeList& nodes, const Place& place) {
  const auto [in, out] = place.trained();
  if (!in && !out) return;
  nodes
      .weight_gradient([place](const NodeCall& call) {
        place.layer().weight_gradient(place.backward(call), place.gradients(), call.gradient);
      })
      .reads_output_gradient = out && place.reads_output_gradient() &&
                               !place.form().changes_branch() && !place.exchanges_rows();
}

void add_input_gradient(NodeList& nodes, const Place& place) {
  const bool reads = place.reads_output_gradient() && !place.form().changes_branch();
  const bool keeps_tokens = place.keeps_tokens();
  if (nodes.is_split() && !keeps_tokens) {
    Node& gradient = nodes.gather_gradient([place](const NodeCall& call) {
      return place.layer().gather_gradient(place.backward(call));
    });
    gradient.reads_output_gradient = reads;
    gradient.with_weight_gradients = place.trained().out && !place.exchanges_rows();
  }
  if (nodes.is_split() && !keeps_tokens && place.trained().in)
    nodes.gather_input_again([place](const NodeCall& call) {
      return place.layer().gather_input_again(place.backward(call));
    });
  if (place.exchanges_rows()) {
    add_travelling_gradient(nodes, place, reads);
    add_weight_gradient(nodes, place);
    add_returned_gradient(nodes, place);
  } else {
    add_products_gradient(nodes, place, reads);
  }
  if (nodes.is_divided() && !keeps_tokens)
    nodes.reduce_gradient([place](const NodeCall& call) {
      return place.layer().reduce_gradient(place.backward(call));
    });
}

/// Of both norms, as far as there are any.
void add_norm_weight_gradients(NodeList& nodes, const Place& place) {
  if (place.form().has_frozen_base) return;
  if (place.form().has_norm) {
    nodes.set_module(norm_of(place.branch), place.block);
    nodes
        .weight_gradient([place](const NodeCall& call) {
          place.layer().norm_weight_gradient(place.backward(call), place.gradients(),
                                             call.gradient);
        })
        .brief = true;
  }
  if (!place.form().has_end_norm) return;
  nodes.set_module(end_norm_of(place.branch), place.block);
  nodes
      .weight_gradient([place](const NodeCall& call) {
        place.layer().end_norm_weight_gradient(place.backward(call), place.gradients(),
                                               call.gradient);
      })
      .brief = true;
}

void add_norm_input_gradient(NodeList& nodes, const Place& place) {
  Node& norm = nodes.input_gradient([place](const NodeCall& call) {
    const Tensor& dx = place.dx(call);
    place.layer().norm_input_gradient(place.backward(call), dx);
    if (place.is_first()) place.chunk->send_input_gradient(call, dx);
  });
  norm.brief = true;
  norm.reads_output_gradient = place.reads_output_gradient();
}

/// The weight gradient follows the input gradient, because all layers share the memory between the
/// two. Only that of attention waits for the input gradient of its norm, so that the chunk's own
/// input gradient is complete as early as possible, unless it hides the sum of the input gradient
/// over the shards.
void add_gradients(NodeList& nodes, const Place& place) {
  const bool is_late = place.branch == Branch::attention && !nodes.is_divided();
  const auto of_module = [&] { nodes.set_module(module_of(place.branch), place.block); };
  add_branch_gradient(nodes, place);
  of_module();
  add_input_gradient(nodes, place);
  if (!is_late && !place.exchanges_rows()) add_weight_gradient(nodes, place);
  nodes.set_module(norm_of(place.branch), place.block);
  add_norm_input_gradient(nodes, place);
  of_module();
  if (is_late) add_weight_gradient(nodes, place);
  add_norm_weight_gradients(nodes, place);
}

/// What is computed again of whole layers before the gradients of `block`: the group that it ends.
void add_group_again(NodeList& nodes, const ChunkLayers& layers, std::size_t block) {
  const Recompute& recompute = layers.recompute;
  if (recompute.mode != Recompute::Mode::full || !is_recomputed(recompute, block) ||
      !ends_group(recompute, block, layers.num_blocks()))
    return;
  const std::size_t first = first_of_group(recompute, block);
  nodes.set_again(true);
  nodes.set_module({});
  if (distributes_inputs(recompute, layers.sharding))
    nodes.collective([&layers, first](const NodeCall& call) {
      return layers.layers->parallel.groups->backward->all_gather(
          layers.layers->streams->backward(), layers.input_part(call.slot, first),
          call.slot.blocks[first].attention.x);
    });
  for (std::size_t i = first; i <= block; ++i) add_block(nodes, layers, i, i == block);
  nodes.set_again(false);
}

}  // namespace

void add_block(NodeList& nodes, const ChunkLayers& layers, std::size_t block, bool without_output) {
  const bool again = nodes.is_again();
  add_forward(nodes, {&layers, block, Branch::attention, again}, false);
  add_forward(nodes, {&layers, block, Branch::feed_forward, again}, without_output);
}

void add_block_gradients(NodeList& nodes, const ChunkLayers& layers, std::size_t block) {
  add_group_again(nodes, layers, block);
  for (const Branch branch : {Branch::feed_forward, Branch::attention}) {
    add_recomputation(nodes, {&layers, block, branch});
    add_gradients(nodes, {&layers, block, branch});
  }
}

}  // namespace troupe::stages
