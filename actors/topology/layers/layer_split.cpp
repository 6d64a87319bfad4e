#include "actors/topology/layers/layer_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>

#include "actors/topology/layers/layer_letters.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

using Rule = LayerSplit::Rule;

std::vector<int> parse_numbers(const std::string& text) {
  std::vector<int> layers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    int count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    if (error != std::errc() || (stop < end && *stop != ',') || stop + 1 == end)
      refuse(
          "must be even, ends, parameters, the layers of each chunk such as 3,2,1, or letters such "
          "as Et*3|t*2|tL");
    layers.push_back(count);
    at = stop < end ? stop + 1 : end;
  }
  return layers;
}

/// The load of a chunk for each thing that it holds; chunks are to have equal loads.
struct Loads {
  std::int64_t embedding = 0, layer = 1, head = 0;
};

Loads parameters_in(const stages::ModelConfig& model) {
  Loads loads{.embedding = 0, .layer = 0, .head = 0};
  std::int64_t positions = 0;
  for (const auto& info : stages::parameters_of(model)) {
    const std::int64_t count = info.shape.num_elements();
    if (info.layer == stages::kEmbeddingLayer) loads.embedding += count;
    if (info.layer == stages::kPositionsLayer) positions += count;
    if (info.layer == 0) loads.layer += count;
    if (info.layer == model.num_hidden_layers) loads.head += count;
  }
  // With tied embeddings the last chunk holds the embedding matrix too.
  if (model.tie_word_embeddings) loads.head += loads.embedding;
  loads.embedding += positions;
  return loads;
}

/// Gives each layer to the chunk with the least load so far, which keeps the largest load as small
/// as possible.
std::vector<int> balanced(int layers, int chunks, const Loads& loads) {
  const auto size = static_cast<std::size_t>(chunks);
  std::vector<int> counts(size, 1);
  std::vector<std::int64_t> load(size, loads.layer);
  load.front() += loads.embedding;
  load.back() += loads.head;
  for (int left = layers - chunks; left > 0; --left) {
    const auto least = std::ranges::min_element(load);
    *least += loads.layer;
    ++counts[static_cast<std::size_t>(least - load.begin())];
  }
  return counts;
}

/// The valid split nearest to the given one: follows it from the first chunk on, as long as every
/// later chunk that had a layer still gets one.
std::vector<int> nearest(std::vector<int> given, int layers, int chunks) {
  given.resize(static_cast<std::size_t>(chunks), 1);
  auto after = std::ranges::count_if(given, [](int count) { return count > 0; });
  std::ptrdiff_t left = layers;
  for (int& count : given) {
    if (count > 0) --after;
    const auto most = std::max<std::ptrdiff_t>(left - after, 0);
    if (&count == &given.back()) count = static_cast<int>(left);
    count = static_cast<int>(std::clamp<std::ptrdiff_t>(count, 0, most));
    left -= count;
  }
  return given;
}

/// What is wrong with a split by hand; empty: nothing.
std::string wrong_with(const std::vector<int>& given, int layers, int chunks) {
  const auto held = std::accumulate(given.begin(), given.end(), std::int64_t{0});
  if (std::ssize(given) != chunks)
    return fmt::format("has {} instead of {}", schedules::counted(std::ssize(given), "chunk"),
                       chunks);
  const auto below = std::ranges::find_if(given, [](int n) { return n < 0; });
  if (below != given.end())
    return fmt::format("gives chunk {} {}, but none is the least", below - given.begin(),
                       schedules::counted(*below, "layer"));
  if (held == layers) return "";
  const std::string counts =
      fmt::format("has {}, but the model has {}", schedules::counted(held, "layer"), layers);
  if (held > layers) return fmt::format("{}: {} too many", counts, held - layers);
  return held + 1 == layers ? fmt::format("{}: layer {} is lost", counts, held)
                            : fmt::format("{}: layers {}-{} are lost", counts, held, layers - 1);
}

}  // namespace

LayerSplit parse_split(const std::string& text) {
  if (text.empty() || text == "even") return {.rule = Rule::even, .layers = {}};
  if (text == "ends") return {.rule = Rule::ends, .layers = {}};
  if (text == "parameters") return {.rule = Rule::parameters, .layers = {}};
  if (text.find_first_of("EtmL|(,") == 0)
    return {.rule = Rule::by_hand, .layers = parse_letters(text), .letters = true};
  return {.rule = Rule::by_hand, .layers = parse_numbers(text)};
}

std::vector<int> split_layers(const LayerSplit& split, const stages::ModelConfig& model,
                              int chunks) {
  const int layers = static_cast<int>(model.num_hidden_layers);
  TROUPE_ASSERT(chunks >= 1 && (split.rule == Rule::by_hand || chunks <= layers));
  if (split.rule == Rule::even) return balanced(layers, chunks, {});
  if (split.rule == Rule::ends)
    return balanced(layers, chunks, {.embedding = 1, .layer = 1, .head = 1});
  if (split.rule == Rule::parameters) return balanced(layers, chunks, parameters_in(model));
  const std::string wrong = wrong_with(split.layers, layers, chunks);
  if (wrong.empty()) return split.layers;
  const auto fits = nearest(split.layers, layers, chunks);
  refuse(fmt::format("{}; nearest: {}", wrong,
                     split.letters ? to_letters(fits) : fmt::format("{}", fmt::join(fits, ","))));
}

LayerSplit rule_of(const LayerSplit& split) {
  return split.rule == Rule::by_hand ? LayerSplit{} : split;
}

}  // namespace troupe::actors
