#pragma once

/// CUDA's name for a stream, so that headers of launch functions need no header of the toolkit.
using cudaStream_t = struct CUstream_st*;
