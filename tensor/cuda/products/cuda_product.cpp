#include "tensor/cuda/products/cuda_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/cuda/products/product_trial.h"

namespace troupe::tensor::cuda {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;  // as NVIDIA recommends for Hopper
constexpr int kTried = 16;

}  // namespace

CudaProduct::CudaProduct(const ProductLibrary& library, const ProductLayout& layout, bool added)
    : layout_(layout),
      alignment_(ProductAlignment::of_rows(layout)),
      descriptors_(library.handle, layout, library.tf32),
      choice_(chosen(library, added)) {}

void CudaProduct::run(cudaStream_t stream, const ProductAddresses& at, void* workspace) {
  if (alignment_.serves(at)) return descriptors_.run(choice_, stream, at, workspace);
  if (!unaligned_) {
    const auto alignment = ProductAlignment::of_elements(layout_);
    unaligned_ = descriptors_.algorithms(alignment, choice_.workspace, 1).front();
  }
  descriptors_.run(*unaligned_, stream, at, workspace);
}

ProductAlgorithm CudaProduct::chosen(const ProductLibrary& library, bool added) {
  if (!library.store) return descriptors_.algorithms(alignment_, kMostWorkspace, 1).front();
  const auto choose = [&] {
    const auto algorithms = descriptors_.algorithms(alignment_, kMostWorkspace, kTried);
    const std::size_t fastest = fastest_of(descriptors_, layout_, added, algorithms);
    AlgorithmStore::Algorithm kept;
    std::ranges::copy(algorithms[fastest].algorithm.data, kept.begin());
    return kept;
  };
  cublasLtMatmulAlgo_t algorithm{};
  std::ranges::copy(library.store->find_or_choose(key(library), choose), algorithm.data);
  return descriptors_.restored(algorithm);
}

std::string CudaProduct::key(const ProductLibrary& library) const {
  const bool tf32 = library.tf32 && layout_.a.dtype == DType::f32;
  return fmt::format("{}, {}{} to {}, op {}{}, m {} n {} k {}, aligned {} {} {}", library.key,
                     name_of(layout_.a.dtype), tf32 ? " as tf32" : "", name_of(layout_.d.dtype),
                     layout_.transpose_a ? 'T' : 'N', layout_.transpose_b ? 'T' : 'N', layout_.m,
                     layout_.n, layout_.k, alignment_.a, alignment_.b, alignment_.d);
}

}  // namespace troupe::tensor::cuda
