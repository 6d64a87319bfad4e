#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/manifest/manifest.h"
#include "stages/token_data.h"

namespace troupe::launch {

/// Replaces the globs of data.files and eval.files by the files they match, sorted bytewise, and
/// checks what can be checked without reading the text: files are there and not empty, the
/// tokenizer opens, its tokens fit the model, a byte corpus makes one sample. Of a .bin every id is
/// read. Throws Error{data}, or Error{manifest} where a number of the manifest is to blame.
void check_corpus(Manifest& manifest);

/// Token files that are ready.
struct Corpus {
  std::int64_t tokens = 0;                    ///< of data.files
  std::vector<stages::TokenCacheHold> holds;  ///< they stay in the cache while this lives
};

/// Tokenizes data.files, and eval.files where they are used (once: the cache finds them again) and
/// sets data.tokens, data.digest and eval.tokens. Throws Error{data} if they do not make one
/// sample.
Corpus prepare_corpus(Manifest& manifest, const stages::EncodeOptions& options);

/// Where token files are kept: $XDG_CACHE_HOME/troupe, or ~/.cache/troupe. It exists. Throws
/// Error{data} if it cannot be made.
std::string token_cache();

}  // namespace troupe::launch
