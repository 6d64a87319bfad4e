#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::stages {

/// The files that the patterns name: each glob's matches sorted bytewise, in the order given. A
/// pattern may also be the prefix of a .bin/.idx pair. Throws Error{data} naming a pattern without
/// a match.
std::vector<std::string> expand_files(const std::vector<std::string>& patterns);

/// Whether the file is one document a line, from its "text", as its name says.
bool is_json_lines(const std::string& path);
/// Throws Error{data} for a file whose name says that it holds no text: it is compressed, or a
/// table, or tokens.
void require_text(const std::string& path);

/// Bytes of a window of for_each_piece; part of what the ids of a corpus are defined by. Small,
/// because SentencePiece takes longer for a byte of a long text than for one of a short text.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 12;

/// What is encoded at once.
struct Piece {
  std::string_view text;
  bool after_newline = false;  ///< that ends the piece before it
};
using UsePiece = std::function<void(const Piece&)>;

/// Calls `use` with the file's text in consecutive pieces of at most kPieceBytes, each ending after
/// the last newline of its window; a window without one is cut before an incomplete UTF-8
/// character, if it ends in one.
void for_each_piece(const std::filesystem::path& path, const UsePiece& use);
/// Calls `use` for each piece of a text in memory.
void for_each_piece_of(std::string_view text, const UsePiece& use);

}  // namespace troupe::stages
