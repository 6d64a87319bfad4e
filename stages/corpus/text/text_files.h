#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// The files that the patterns name: each glob's matches sorted bytewise, in the order given. A
/// pattern may also be the prefix of a .bin/.idx pair. Throws Error{data} naming a pattern without
/// a match.
std::vector<std::string> expand_files(const std::vector<std::string>& patterns);

/// Bytes of text that are looked at for a cut; a piece is longer only if it has none. It is small
/// because SentencePiece takes more time per byte for a long text than for a short one.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 12;

/// A piece of a document that is encoded as a whole.
struct Piece {
  std::string_view text;
  Place place = Place::start;
};
using UsePiece = std::function<void(const Piece&)>;

/// Calls `use` with the file's text in consecutive pieces, cut where `cuts` allows it. Memory is
/// bounded by the longest piece.
void for_each_piece(const std::filesystem::path& path, const Cuts& cuts, const UsePiece& use);
/// Calls `use` for each piece of a text in memory.
void for_each_piece_of(std::string_view text, const Cuts& cuts, const UsePiece& use);

}  // namespace troupe::stages
