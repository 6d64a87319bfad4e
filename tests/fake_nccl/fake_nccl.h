#pragma once

// What a test tells the fake libnccl.so.2 beside NCCL's own functions.
//
// The environment scripts a communicator; it is read when the communicator begins to start:
//   FAKE_NCCL_POLLS: how often a start and each group of calls answer ncclInProgress; 3
//   FAKE_NCCL_HOLD: a file: while it exists no start ends
//   FAKE_NCCL_FAIL: "ncclAllReduce:2:3": the second call of the function in this process gives 3
//   FAKE_NCCL_ABORT: "hangs": ncclCommAbort never returns
//   FAKE_NCCL_MEMORY: "512:1024": MiB that a communicator takes, and that a process has for them
//   FAKE_NCCL_TELL: a file: each start adds a line with settings of NCCL that it has found

using cudaStream_t = struct CUstream_st*;

/// How the fake runs on the streams of a device.
struct FakeNcclStreams {
  /// Runs call(argument) behind all that the stream was given before, on a thread where it may
  /// block.
  void (*run)(cudaStream_t stream, void (*call)(void*), void* argument);
  /// Tells GPUs apart: each has room for one kernel of NCCL at a time.
  const void* (*gpu_of)(cudaStream_t stream);
};

/// Given before the first collective.
extern "C" void fakeNcclUseStreams(const FakeNcclStreams* streams);
