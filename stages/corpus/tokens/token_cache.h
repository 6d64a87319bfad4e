#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/documents.h"
#include "stages/corpus/text/text_rules.h"
#include "stages/corpus/text/token_width.h"

namespace troupe::stages {

/// Where one stream of tokens comes from.
struct TokenSource {
  /// Text files in order, or one Megatron .bin/.idx prefix or .bin file.
  std::vector<std::string> files;
  std::string tokenizer = "bytes";
  /// With LossOn::response all files are JSON lines, and the cache keeps which tokens are of
  /// prompts.
  LossOn loss_on = LossOn::all;
  Documents documents = Documents::joined;  ///< tells what is around a text (marks_of)
  TextRules rules{};
};

/// Turns the source into a token cache file once (keyed by path, size, inode, mtime and ctime of
/// every file and of the tokenizer; found again by the next run) and returns its path. Memory stays
/// bounded for any size of text. A .bin with its .idx is checked and used as it is. Every byte of a
/// cache file is compared with its checksums; a damaged or foreign one is written anew; processes
/// that prepare the same source at once do not disturb each other. Throws Error{data} for missing,
/// unreadable or empty files, naming them.
std::string prepare_tokens(const TokenSource& source, const std::string& cache_dir,
                           const EncodeOptions& options = {});

/// How the files were read of which a token file was made, in lines; empty if plainly, or if it is
/// a dataset. Throws Error{data} for one that is broken.
std::string token_notes(const std::string& tokens);

inline constexpr std::array<char, 8> kTokenCacheMagic{'T', 'R', 'O', 'U', 'P', 'E', 'T', 'K'};
inline constexpr std::uint32_t kTokenCacheVersion = 6;

/// The last bytes of a token cache file (stages/corpus/README.md). The ids begin at byte 0; the end
/// of each document follows them, then begin and end of each masked span, the notes, and the key.
struct TokenCacheTrailer {
  std::uint64_t ids_sum = 0;     ///< XXH64 of the ids
  std::uint64_t bounds_sum = 0;  ///< XXH64 of the documents' ends and the masked spans
  std::uint64_t notes_bytes = 0;
  std::uint64_t num_tokens = 0;
  std::uint64_t num_documents = 0;
  std::uint64_t num_masked = 0;
  std::uint64_t key_bytes = 0;
  TokenWidth width = TokenWidth::u8;
  std::uint32_t version = kTokenCacheVersion;
  std::uint64_t sum = 0;  ///< XXH64 of the notes, the key and the fields above
  std::array<char, 8> magic = kTokenCacheMagic;

  std::uint64_t ids_bytes() const { return num_tokens * bytes_of(width); }
  /// Bytes of the documents' ends and the masked spans.
  std::uint64_t bounds_bytes() const {
    return (num_documents + 2 * num_masked) * sizeof(std::int64_t);
  }
};
static_assert(sizeof(TokenCacheTrailer) == 80);

/// What a token cache file says of its source, in words.
struct TokenCacheWords {
  std::string notes;  ///< how the files were read, in lines (CorpusReading); empty if plainly
  std::string key;    ///< the source itself
};
/// Reads the trailer and checks it against the file's length and the words before it. Throws
/// Error{data} naming the file.
TokenCacheTrailer read_token_cache_trailer(const std::filesystem::path& path,
                                           TokenCacheWords* words = nullptr);

}  // namespace troupe::stages
