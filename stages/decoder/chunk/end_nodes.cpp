#include "stages/decoder/chunk/chunk_layers.h"

// The nodes of a chunk's ends: of the tensors that travel between chunks, embedding and head.

namespace troupe::stages {

using tensor::Tensor;

void add_edge_gather(NodeList& nodes, const ChunkLayers& layers) {
  nodes.set_module({});
  nodes.collective([&layers](const NodeCall& call) {
    return layers.layers->parallel.groups->forward->all_gather(
        layers.layers->streams->forward(), call.forward->input, layers.input_of(call.slot, 0));
  });
}

void add_edge_gradient_gather(NodeList& nodes, const ChunkLayers& layers) {
  nodes.set_module({});
  nodes
      .gather_gradient([&layers](const NodeCall& call) {
        return layers.layers->parallel.groups->backward->all_gather(
            layers.layers->streams->backward(), call.slot.output_gradient,
            call.deferred->output_gradient);
      })
      .with_weight_gradients = false;
}

void add_copy(NodeList& nodes, const ChunkLayers& layers) {
  nodes.set_module({});
  nodes.forward([&layers](const NodeCall& call) {
    layers.layers->ops->copy(layers.layers->streams->forward(), call.forward->input,
                             call.forward->output);
  });
}

void add_copy_gradients(NodeList& nodes, const ChunkLayers& layers) {
  nodes.set_module({});
  nodes
      .input_gradient([&layers](const NodeCall& call) {
        layers.layers->ops->copy(layers.layers->streams->backward(), call.slot.output_gradient,
                                 call.slot.input_gradient);
      })
      .reads_output_gradient = true;
  nodes.weight_gradient([](const NodeCall&) {});
}

void add_embedding(NodeList& nodes, const ChunkLayers& layers) {
  nodes.set_module(Module::embedding);
  nodes.forward([&layers](const NodeCall& call) {
    const ForwardCall& forward = *call.forward;
    layers.layers->embedding.forward(forward.ids, forward.documents.positions, layers.embedding,
                                     call.slot.embedding, call.slot.forward_tokens,
                                     layers.input_of(call.slot, 0));
  });
  if (!nodes.is_divided()) return;
  nodes.collective([&layers](const NodeCall& call) {
    return layers.layers->embedding.reduce_output(call.slot.forward_tokens,
                                                  layers.input_of(call.slot, 0));
  });
  nodes
      .forward([&layers](const NodeCall& call) {
        layers.layers->embedding.finish_output(layers.embedding, call.slot.embedding,
                                               layers.input_of(call.slot, 0));
        layers.send_output(call, 0);
      })
      .brief = true;
}

void add_embedding_gradients(NodeList& nodes, const ChunkLayers& layers) {
  nodes.set_module(Module::embedding);
  if (layers.form.has_frozen_base) {
    Node& nothing = nodes.input_gradient([](const NodeCall&) {});
    nothing.reads_weights = false;
    nothing.reads_output_gradient = layers.num_blocks() == 0 && !layers.spec.head;
    return;
  }
  if (nodes.is_split())
    nodes
        .gather_gradient([&layers](const NodeCall& call) {
          return layers.layers->embedding.gather_gradient(
              layers.gradient_of(call, 0), call.slot.embedding, call.slot.backward_tokens);
        })
        .with_input_gradients = false;
  nodes.input_gradient([](const NodeCall&) {}).reads_weights = false;  // tokens have no gradient
  nodes
      .weight_gradient([&layers](const NodeCall& call) {
        layers.layers->embedding.weight_gradient(layers.gradient_of(call, 0), call.slot.embedding,
                                                 call.slot.backward_tokens,
                                                 layers.embedding_gradients, call.gradient);
      })
      .reads_output_gradient = layers.num_blocks() == 0 && !layers.spec.head;
}

void add_head(NodeList& nodes, const ChunkLayers& layers) {
  nodes.set_module(Module::final_norm);
  nodes
      .forward([&layers](const NodeCall& call) {
        layers.layers->head->forward_norm(layers.head, call.slot.head);
      })
      .brief = true;
  nodes.set_module(Module::head);
  if (nodes.is_split())
    nodes.collective([&layers](const NodeCall& call) {
      return layers.layers->head->gather_input(call.slot.head);
    });
  nodes.forward([&layers](const NodeCall& call) {
    layers.layers->head->forward(layers.head, call.slot.head);
  });
  // Evaluations without targets have no loss. Several shards need two collectives for it.
  const auto has_loss = [](const NodeCall& call) { return !call.forward->targets.empty(); };
  if (nodes.is_divided()) {
    nodes.collective([&layers, has_loss](const NodeCall& call) {
      return has_loss(call) ? layers.layers->head->reduce_max(call.slot.head) : nullptr;
    });
    nodes
        .forward([&layers, has_loss](const NodeCall& call) {
          if (has_loss(call))
            layers.layers->head->local_sums(layers.head, call.forward->targets, call.slot.head);
        })
        .reads_weights = layers.head_is_in_parts;
    nodes.collective([&layers, has_loss](const NodeCall& call) {
      return has_loss(call) ? layers.layers->head->reduce_sums(call.slot.head) : nullptr;
    });
  }
  nodes
      .forward([&layers, has_loss](const NodeCall& call) {
        const ForwardCall& forward = *call.forward;
        call.slot.head.scale = call.loss_scale;
        if (has_loss(call))
          layers.layers->head->loss(layers.head, forward.targets, call.slot.head, forward.loss,
                                    forward.token_losses);
      })
      .reads_weights = layers.head_is_in_parts;
}

void add_head_gradients(NodeList& nodes, const ChunkLayers& layers) {
  const bool has_gradients = !layers.form.has_frozen_base;
  nodes.set_module(Module::head);
  if (nodes.is_split() && has_gradients)
    nodes.gather_input_again([&layers](const NodeCall& call) {
      return layers.layers->head->gather_input_again(call.slot.head);
    });
  nodes.input_gradient([&layers](const NodeCall& call) {
    layers.layers->head->input_gradient(layers.backward_head, call.slot.head,
                                        layers.head_deferred(call));
  });
  if (nodes.is_divided())
    nodes.reduce_gradient([&layers](const NodeCall& call) {
      return layers.layers->head->reduce_gradient(call.slot.head, layers.head_deferred(call));
    });
  if (has_gradients)
    nodes
        .weight_gradient([&layers](const NodeCall& call) {
          layers.layers->head->weight_gradient(layers.backward_head, call.slot.head,
                                               layers.head_gradients, call.gradient);
        })
        .reads_weights = layers.head_is_in_parts;
  nodes.set_module(Module::final_norm);
  nodes
      .input_gradient([&layers](const NodeCall& call) {
        const HeadDeferred deferred = layers.head_deferred(call);
        layers.layers->head->input_gradient_norm(layers.backward_head, call.slot.head, deferred);
        if (layers.num_blocks() == 0) layers.send_input_gradient(call, deferred.dx);
      })
      .brief = true;
  if (!has_gradients) return;
  nodes
      .weight_gradient([&layers](const NodeCall& call) {
        layers.layers->head->weight_gradient_norm(call.deferred->head, layers.head_gradients,
                                                  call.gradient);
      })
      .brief = true;
}

}  // namespace troupe::stages
