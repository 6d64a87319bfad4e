#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/embedding/embedding_kernels.h"

namespace troupe::tensor::cuda {

/// A token with the row of the table that it names; the number of rows for a token that names none.
struct TokenOfRow {
  std::uint32_t token;
  std::uint32_t row;
};

/// The tokens of a Lookup sorted by row, those of one row in ascending order. `runs` are the
/// stretches of one row: run i is sorted[starts[i], starts[i + 1]). Tokens that name no row are in
/// no run.
struct TokenOrder {
  TokenOfRow* sorted = nullptr;     ///< [tokens]
  TokenOfRow* other = nullptr;      ///< [tokens], to sort in
  std::uint32_t* starts = nullptr;  ///< [tokens + 1]
  std::uint32_t* runs = nullptr;    ///< one number, of runs
};

/// Bytes of memory for a TokenOrder, and that memory divided.
std::size_t token_order_bytes(std::int64_t tokens);
TokenOrder token_order_in(void* memory, std::int64_t tokens);

/// Sorts the tokens, by one block: a radix sort (D. Knuth, The Art of Computer Programming, volume
/// 3, section 5.2.5), stable and the same in any order of threads. Fewer than 2^31 tokens and rows.
void launch_token_order(const Lookup& lookup, const TokenOrder& order, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
