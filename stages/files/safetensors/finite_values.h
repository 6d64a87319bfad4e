#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stages/files/safetensors/weight_dtype.h"
#include "tensor/errors/error.h"
#include "tensor/values/region.h"

namespace troupe::stages {

/// Where the elements of a buffer come from or go to.
struct ElementsOf {
  std::string_view tensor;
  const std::filesystem::path& file;
  const tensor::Region& region;  ///< of the tensor, row after row as in the buffer
};

/// What would be written is not finite: a checkpoint that nobody could go on from, whoever wrote it
/// again.
class NotFinite : public Error {
 public:
  explicit NotFinite(const std::string& message) : Error(ErrorKind::internal, message) {}
};

/// Throws NotFinite with the tensor's name, the place and the value of the first element of a
/// region of float32, which lies row after row, that is NaN or infinite.
void refuse_not_finite(std::string_view tensor, const tensor::Region& region,
                       std::span<const std::byte> elements);

/// An Error{data} with the tensor's name, the file, the place and the value of the first element
/// that is NaN or infinite, with which nothing that is computed is a number; none if all are
/// finite.
std::optional<Error> not_finite(const ElementsOf& of, std::span<const std::byte> elements,
                                WeightDType dtype);

/// An Error{data} with the tensor's name, the place and the value of the first element of `wide`
/// that became infinite when all were rounded to `narrowed`; none if there is none.
std::optional<Error> out_of_range(const ElementsOf& of, std::span<const float> wide,
                                  std::span<const std::byte> narrowed, WeightDType dtype);

}  // namespace troupe::stages
