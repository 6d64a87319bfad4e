#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stages/files/safetensors/region_bytes.h"
#include "tensor/values/region.h"
#include "tensor/values/tensor.h"

namespace troupe::stages {

/// A tensor of a file that is to be written.
struct TensorLayout {
  std::string name;
  std::string_view dtype = "F32";  ///< one of kSafetensorsDTypes, of whole bytes
  tensor::Shape shape;
  /// The regions that have a checksum each, all elements of a matrix or vector together; empty: the
  /// whole tensor has one.
  std::vector<tensor::Region> regions;
};

/// Where everything lies in a safetensors file. It is known before the tensors' bytes are, so that
/// several writers can agree on it without a word. Tensors are ordered by dtype, as the reference
/// implementation sorts, then by name.
class SafetensorsLayout {
 public:
  /// Names must be unique. Throws Error{internal} if the header would be longer than a reader
  /// takes.
  explicit SafetensorsLayout(std::vector<TensorLayout> tensors);

  /// What precedes the tensors: length and header, in which each checksum is kUnsetSum.
  const std::string& head() const { return head_; }
  /// Bytes of the file.
  std::uint64_t size() const { return size_; }
  struct HeadPart {
    std::uint64_t begin = 0;  ///< the file's byte at which it begins
    std::string_view bytes;   ///< lives as long as the layout
  };
  /// The head without its checksums, in order: what all writers of a file write alike.
  std::vector<HeadPart> parts_between_sums() const;

  /// The calls below take the name of a tensor of this layout.
  const StoredMatrix& matrix_of(const std::string& tensor) const { return at(tensor).matrix; }
  /// All of the tensor, as a region of its matrix.
  const tensor::Region& whole_of(const std::string& tensor) const { return at(tensor).whole; }
  /// The file's byte at which the checksum of one of the tensor's regions begins.
  std::uint64_t sum_of(const std::string& tensor, const tensor::Region& region) const;

 private:
  struct Place {
    tensor::Region whole;
    StoredMatrix matrix;
  };
  const Place& at(const std::string& tensor) const { return places_.at(tensor); }
  void add_metadata(const std::vector<TensorLayout>& tensors);
  void add_entries(const std::vector<TensorLayout>& tensors);

  std::string head_;
  std::uint64_t size_ = 0;
  std::map<std::string, Place> places_;
  std::map<std::string, std::uint64_t> sums_;  ///< by region_name()
};

}  // namespace troupe::stages
