@0xb3f1c2a4d5e69788;

# The header of every message between two ranks: the active-message header of UCX, at most 2 KiB.
# A tensor's bytes travel beside it as the payload, never in it.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::transport::wire");

enum Direction {
  forward @0;
  backward @1;
  state @2;
}

enum DType {
  float32 @0;
  bfloat16 @1;
  int32 @2;
  float64 @3;
  int64 @4;
}

struct Header {
  run @0 :UInt64;
  # Random id of the run.
  configuration @1 :UInt32;
  # Version of the cluster's membership and layout.
  sender @2 :UInt32;
  # Number of the process that sends, which it keeps for its life.
  checksum @3 :UInt64;
  # Checksum of all other fields: a header that was damaged, or that another program has written,
  # is refused.

  union {
    grant @4 :Grant;
    tensor @5 :Tensor;
    credit @6 :Credit;
    collective @7 :Collective;
    decline @8 :EdgeId;
    # Sender to receiver, in answer to a grant: the sender cannot map this edge's slots. The
    # receiver grants others, in the memory of its host.
  }
}

struct EdgeId {
  # An edge as seen by the two ranks it joins.
  chunk @0 :UInt32;
  # The chunk that receives the tensor.
  direction @1 :Direction;
  digest @2 :UInt64;
  # Hash of the whole edge: ranks, dtype, shape, slots.
}

struct Grant {
  # Receiver to sender, once a configuration: the edge is open. Its slots are free, unless they are
  # kept.
  edge @0 :EdgeId;
  dtype @1 :DType;
  shape @2 :List(Int64);
  slots @3 :UInt32;
  # What the receiver expects of the edge.
  segment @4 :Int64;
  nonce @5 :UInt64;
  # The slots' shared memory, for a sender on the same host. Segment -1: none.
  kept @6 :Bool;
  # The slots hold what the receiver still needs: credits follow.
  onDevice @7 :Bool;
  # The slots lie in the memory of the receiver's device: `segment` and `nonce` name the descriptor
  # by which the sender, on the same host, can map them.
}

struct Credit {
  # Receiver to sender: these slots are free again.
  edge @0 :EdgeId;
  slots @1 :List(UInt16);
}

struct Tensor {
  # Sender to receiver: one tensor into a slot that a grant or credit named.
  edge @0 :EdgeId;
  step @1 :UInt64;
  microbatch @2 :UInt32;
  slot @3 :UInt16;
  placement @4 :Placement;
  dtype @5 :DType;
  shape @6 :List(Int64);
  bytes @7 :UInt64;
  # Type, shape and size of the tensor.
  sequence @8 :UInt64;
  # Number of the message on its edge, from 0.
  credit @9 :Credit;
  # Slots of an edge in the other direction that were freed since the last message. Null: none.
}

enum Placement {
  payload @0;
  # The tensor is the payload of this message.
  written @1;
  # The sender has written it into the slot; there is no payload.
}

struct Collective {
  # Between two members of a group, which is known by (run, configuration, group). The receiver asks
  # for a part of the data when it has a place for it; the sender answers when it has the part.
  kind @0 :CollectiveKind;
  group @1 :UInt32;
  sequence @2 :UInt64;
  # Number of the collective in its group, from 0.
  operation @3 :UInt8;
  part @4 :UInt32;
  # Which of the parts that the one member has for the other in this collective.
  bytes @5 :UInt64;
  # Size of the part.
  dtype @6 :DType;
  reduction @7 :UInt8;
  # What the sender does to the elements. A reduction that the operation has not is 0.
  segment @8 :Int64;
  nonce @9 :UInt64;
  segmentBytes @10 :UInt64;
  offset @11 :UInt64;
  # In a request: the receiver's shared memory, and where the part goes in it. Segment -1: none.
}

enum CollectiveKind {
  request @0;
  data @1;
  # The part is the payload of this message.
  written @2;
  # The sender has written the part into the receiver's memory; there is no payload.
  called @3;
  # The sender has called this collective, which the members' devices carry: `bytes` is the number
  # of elements that all members must have alike.
}
