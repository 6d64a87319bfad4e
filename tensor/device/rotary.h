#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tensor {

/// How the frequencies of a rotary embedding are changed for sequences that are longer than those
/// a model was trained on, by the names of Hugging Face's rope_type.
enum class RotaryType {
  standard,  ///< "default": not at all
  linear,    ///< positions are interpolated (arXiv 2306.15595)
  dynamic,   ///< theta grows with the length of the sequence ("NTK-aware")
  yarn,      ///< low frequencies are interpolated, and scores scaled (arXiv 2309.00071)
  llama3,    ///< low frequencies are interpolated, by wavelength (arXiv 2407.21783)
  longrope,  ///< factors of each frequency, of one list or the other by length (arXiv 2402.13753)
};
/// The rope_type of Hugging Face.
const char* name_of(RotaryType type);
/// The type of that name, into `type`; false if there is none.
bool find_rotary_type(std::string_view name, RotaryType& type);

/// A rotary position embedding (arXiv 2104.09864), by the field names of Hugging Face's
/// rope_parameters. A type does not read the fields of others. A value.
struct Rotary {
  RotaryType type = RotaryType::standard;
  double theta = 10000.0;
  /// R, the elements of a head that turn, its first ones (rotate-half within them); the others
  /// stay. 0: all.
  std::int64_t dim = 0;
  double factor = 1;  ///< by which sequences may be longer; all types but standard
  /// The longest sequence that needs no change: of dynamic the model's max_position_embeddings, of
  /// longrope the longest that short_factor serves.
  std::int64_t original_max_position_embeddings = 0;  ///< dynamic, yarn, llama3, longrope
  double low_freq_factor = 1;                         ///< llama3
  double high_freq_factor = 4;                        ///< llama3
  double beta_fast = 32;                              ///< yarn
  double beta_slow = 1;                               ///< yarn
  /// yarn, longrope: attention_scaling(); 0: follows from the others.
  double attention_factor = 0;
  double mscale = 0;          ///< yarn: if both are given, that is, not 0, the attention_factor
  double mscale_all_dim = 0;  ///< follows from them
  bool truncate = true;       ///< yarn: whether the bounds between frequencies are rounded
  /// longrope: what each of the R/2 frequencies is divided by, in a sequence of up to the original
  /// length and in a longer one.
  std::vector<double> short_factor{}, long_factor{};
  bool operator==(const Rotary&) const = default;
};

/// A number of a Rotary by its name in rope_parameters.
struct RotaryNumber {
  std::string_view name;
  double Rotary::*member;
};
/// All but theta.
inline constexpr std::array kRotaryNumbers{
    RotaryNumber{"factor", &Rotary::factor},
    RotaryNumber{"low_freq_factor", &Rotary::low_freq_factor},
    RotaryNumber{"high_freq_factor", &Rotary::high_freq_factor},
    RotaryNumber{"beta_fast", &Rotary::beta_fast},
    RotaryNumber{"beta_slow", &Rotary::beta_slow},
    RotaryNumber{"attention_factor", &Rotary::attention_factor},
    RotaryNumber{"mscale", &Rotary::mscale},
    RotaryNumber{"mscale_all_dim", &Rotary::mscale_all_dim},
};
/// Whether a type reads the field of that name.
bool reads(RotaryType type, std::string_view field);

/// A field of a struct that has no meaning, by its address.
struct FieldFault {
  const void* field = nullptr;
  std::string sentence{};
  bool empty() const { return field == nullptr; }
};

/// R for heads of head_dim elements.
inline std::int64_t rotary_dim(const Rotary& rotary, std::int64_t head_dim) {
  return rotary.dim > 0 ? rotary.dim : head_dim;
}

/// Why the embedding has no meaning for heads of head_dim elements: empty if it has, else a field,
/// which may be head_dim itself, and one sentence with its name ("rope_" and that of the member),
/// the rule and its numbers, and a usual value.
FieldFault check_rotary(const Rotary& rotary, const std::int64_t& head_dim);

/// Whether the frequencies depend on the length of the sequence, each document having one of its
/// own.
inline bool depends_on_length(const Rotary& rotary) {
  return rotary.type == RotaryType::dynamic || rotary.type == RotaryType::longrope;
}

/// Fills `inverse`[R / 2] with the radians that pair i turns per position in a sequence of
/// `length` tokens. float32 throughout, each step rounded as PyTorch does in transformers: the
/// angle is float(position) * inverse[i], rounded to float32 too. Allocates nothing.
void inverse_frequencies(const Rotary& rotary, std::int64_t length, std::span<float> inverse);

/// What cos and sin of the angles are multiplied by.
float attention_scaling(const Rotary& rotary);

}  // namespace troupe::tensor
