#include "launch/manifest/corpus.h"

#include <fmt/format.h>
#include <unistd.h>
#include <utf8.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "launch/host/machine.h"
#include "launch/manifest/run_spec.h"
#include "schedules/counted.h"
#include "stages/token_data.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrained = "data.files";
constexpr const char* kEvaluated = "eval.files";

/// Calls `body` and gives its errors the place in the manifest that names the files.
template <typename Body>
auto about_files(const Manifest& m, const char* key, const Body& body) try {
  return body();
} catch (const Error& error) {
  m.fail(key, error.what(), error.kind());
}

/// The files that a pattern matches. A name that exists is taken literally, whatever characters it
/// has.
std::vector<std::string> expand(const Manifest& m, const char* key, const std::string& pattern) {
  std::error_code ignored;
  if (fs::is_regular_file(pattern, ignored)) return {pattern};
  return about_files(m, key, [&] { return stages::expand_files({pattern}); });
}

/// The size of a file in bytes. Throws if it is not a readable file with content.
std::int64_t check_file(const Manifest& m, const char* key, const std::string& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error))
    m.fail(key, fmt::format("{} is not a file", file), ErrorKind::data);
  if (access(file.c_str(), R_OK) != 0)
    m.fail(key, fmt::format("{} cannot be read", file), ErrorKind::data);
  about_files(m, key, [&] { stages::require_text(file); });
  if (!utf8::is_valid(file))
    m.fail(key, fmt::format("the file name {} is not UTF-8; rename it", stages::valid_utf8(file)),
           ErrorKind::data);
  const auto bytes = static_cast<std::int64_t>(fs::file_size(file));
  if (bytes == 0) m.fail(key, fmt::format("{} is empty", file), ErrorKind::data);
  return bytes;
}

/// For what is known before a file of joined samples is tokenized.
void check_one_sample(const Manifest& m, const char* key, std::int64_t tokens) {
  const std::int64_t seq_len = m.integer("batch.seq_len");
  if (tokens > seq_len) return;
  m.fail(
      key,
      fmt::format("{} holds {}, but a sample takes batch.seq_len + 1 = {}; nearest: seq_len = {}",
                  key, schedules::counted(tokens, "token"), seq_len + 1,
                  std::max<std::int64_t>(tokens - 1, 1)),
      ErrorKind::data);
}

/// The samples that a token file makes. Throws if there is none.
std::int64_t count_samples(const Manifest& m, const char* key, const stages::TokenFile& tokens) {
  const stages::Documents documents = to_run_spec(m).batch.documents;
  if (documents == stages::Documents::joined) check_one_sample(m, key, tokens.num_tokens());
  const stages::SampleTable samples(tokens, m.integer("batch.seq_len"), documents);
  if (samples.size() > 0) return samples.size();
  m.fail(key,
         fmt::format("{} holds {} in {}, but with batch.documents = '{}' a sample is a document of "
                     "at least 2 tokens; 'joined' joins them",
                     key, schedules::counted(tokens.num_tokens(), "token"),
                     schedules::counted(tokens.num_documents(), "document"),
                     m.text("batch.documents")),
         ErrorKind::data);
}

int tokenizer_size(const Manifest& m) try {
  const std::string& name = m.text("data.tokenizer");
  std::error_code ignored;
  if (name != stages::kBytesTokenizer && !fs::exists(name, ignored))
    throw Error(ErrorKind::data, fmt::format("{}: no such tokenizer; 'bytes' needs no file", name));
  return stages::Tokenizer::open(name)->vocab_size();
} catch (const Error& error) {
  m.fail("data.tokenizer", error.what(), error.kind());
}

void check_tokenizer(const Manifest& m) {
  const int tokens = tokenizer_size(m);
  const std::int64_t vocab = m.integer("model.vocab_size");
  if (tokens > vocab)
    m.fail("model.vocab_size",
           fmt::format("model.vocab_size = {} is less than the {} tokens of data.tokenizer = '{}'; "
                       "at least {}",
                       vocab, tokens, m.text("data.tokenizer"), tokens));
}

/// Reads every token id of a .bin, because an id without a row of the embedding would end the run
/// at some step.
void check_dataset(Manifest& m, const char* key) {
  const auto tokens = about_files(m, key, [&] { return stages::TokenFile::open(m.texts(key)[0]); });
  count_samples(m, key, *tokens);
  const std::string digest = about_files(
      m, key, [&] { return stages::scan_tokens(*tokens, m.integer("model.vocab_size")); });
  if (std::string_view(key) == kTrained) m.resolve("data.digest", digest);
}

/// Checks the files of one key after its globs were expanded.
void check_files(Manifest& m, const char* key) {
  const auto& files = m.texts(key);
  if (std::ranges::any_of(files, stages::is_indexed_dataset)) {
    if (files.size() > 1)
      m.fail(key, fmt::format("{} lists a .bin token file with {} other files; it stands alone",
                              key, files.size() - 1));
    tokenizer_size(m);  // only checks that it opens: the ids themselves are read below
    check_dataset(m, key);
    return;
  }
  std::int64_t bytes = 0;
  for (const std::string& file : files) bytes += check_file(m, key, file);
  check_tokenizer(m);
  // Only a part of a JSON line is text, so the sizes of JSON files tell no number of tokens.
  if (m.text("data.tokenizer") == stages::kBytesTokenizer &&
      std::ranges::none_of(files, stages::is_json_lines) &&
      to_run_spec(m).batch.documents == stages::Documents::joined)
    check_one_sample(m, key, bytes);
}

/// Makes the token file for the files of one key and counts its tokens and samples in `corpus`.
void prepare(Manifest& m, const char* key, const char* tokens_key, Corpus& corpus,
             const stages::EncodeOptions& options) {
  const std::string path = stages::prepare_tokens(
      {.files = m.texts(key), .tokenizer = m.text("data.tokenizer")}, token_cache(), options);
  corpus.holds.emplace_back(path);
  const auto tokens = stages::TokenFile::open(path);
  corpus.tokens = tokens->num_tokens();
  corpus.samples = count_samples(m, key, *tokens);
  m.resolve(tokens_key, path);
}

fs::path cache_home() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return cache;
  if (const auto home = home_directory()) return *home / ".cache";
  throw Error(ErrorKind::data, "no place for token files: set XDG_CACHE_HOME or HOME");
}

}  // namespace

void check_corpus(Manifest& m) {
  for (const char* key : {kTrained, kEvaluated}) {
    std::vector<std::string> files;
    for (const std::string& pattern : m.texts(key)) {
      const auto found = expand(m, key, pattern);
      files.insert(files.end(), found.begin(), found.end());
    }
    m.resolve(key, files);
    if (!files.empty()) check_files(m, key);
  }
}

Corpus prepare_corpus(Manifest& m, const stages::EncodeOptions& options) {
  Corpus corpus;
  if (m.integer("eval.interval") > 0) prepare(m, kEvaluated, "eval.tokens", corpus, options);
  prepare(m, kTrained, "data.tokens", corpus, options);  // last: it is what `corpus` counts
  if (m.text("data.digest").empty())
    m.resolve("data.digest", stages::scan_tokens(*stages::TokenFile::open(m.text("data.tokens")),
                                                 m.integer("model.vocab_size")));
  return corpus;
}

std::string token_cache() {
  const fs::path cache = cache_home() / "troupe";
  std::error_code error;
  fs::create_directories(cache, error);
  if (error)
    throw Error(ErrorKind::data,
                fmt::format("cannot make {} for token files: {}; XDG_CACHE_HOME sets another place",
                            cache.string(), error.message()));
  return cache.string();
}

}  // namespace troupe::launch
