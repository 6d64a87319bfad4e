#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/manifest/toml/manifest.h"
#include "stages/corpus/token_data.h"

namespace troupe::launch {

/// Replaces the globs of data.files, data.mix, eval.files and eval.set by the files they match,
/// sorted bytewise, and checks what can be checked without reading long texts: files exist and are
/// not empty, the tokenizer opens, its tokens fit the model, a short text makes at least one
/// sample. Every token id of a .bin is read. Throws Error{data}, or Error{manifest} if a number of
/// the manifest is at fault.
void check_corpus(Manifest& manifest);

/// The token files of a run.
struct Corpus {
  struct Source {
    std::string name;          ///< empty: data.files
    double share = 1;          ///< of the run's samples
    std::int64_t tokens = 0;   ///< number of tokens in its files
    std::int64_t samples = 0;  ///< number of samples that they make
    std::string notes{};       ///< how its files were read, in lines; empty if plainly
  };
  std::vector<Source> sources;
  std::string framing;                        ///< what is put around texts and prompts, in words
  std::vector<stages::TokenCacheHold> holds;  ///< keep the files in the cache
};

/// Tokenizes data.files or data.mix, and eval.files or eval.set if the run evaluates, and sets
/// tokens, digests and numbers of samples of all of them. Files that the cache has are
/// not tokenized again. Throws Error{data} if the tokens of a source do not make one sample.
Corpus prepare_corpus(Manifest& manifest, const stages::EncodeOptions& options);

/// The directory of the token files: $XDG_CACHE_HOME/troupe, or else ~/.cache/troupe. Creates it if
/// it does not exist. Throws Error{data} if it cannot be created.
std::string token_cache();

}  // namespace troupe::launch
