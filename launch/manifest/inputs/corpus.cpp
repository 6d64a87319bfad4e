#include "launch/manifest/inputs/corpus.h"

#include <fmt/format.h>
#include <unistd.h>
#include <utf8.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "launch/host/console.h"
#include "launch/host/machine.h"
#include "schedules/plan/counted.h"
#include "stages/corpus/token_data.h"
#include "stages/corpus/tokenizers/tokens_beside.h"
#include "stages/storage/input_file.h"
#include "stages/storage/xxh64.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

// A text of at most as many bytes as both say is encoded to see whether it makes a sample.
/// Of any text: it takes some hundredths of a second.
constexpr std::int64_t kShortBytes = 1 << 16;
/// For each token of a sample, with what is around the text in a line of JSON.
constexpr std::int64_t kLongestTokenBytes = 16;

/// Text that becomes one token file.
struct Text {
  const Key& key;                         ///< that names it
  std::string name;                       ///< its name in messages
  const std::vector<std::string>& files;  ///< maybe globs
};

/// The text of data.files, eval.files, or a table of a list.
template <typename Row>
Text text_of(const Key& key, const Row& row) {
  const std::string which = row.name.empty() ? "" : fmt::format(" '{}'", row.name);
  return {key, key.full_name() + which, row.files};
}

/// The files that the patterns match. A name that exists is taken literally, whatever characters it
/// has.
std::vector<std::string> expanded(const Manifest& m, const Text& text) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const std::string& pattern : text.files)
    if (fs::is_regular_file(pattern, ignored))
      files.push_back(pattern);
    else
      std::ranges::copy(m.about(text.key, [&] { return stages::expand_files({pattern}); }),
                        std::back_inserter(files));
  return files;
}

/// The size of a file in bytes. Throws if it is not a readable file with content.
std::int64_t check_file(const Manifest& m, const Key& key, const std::string& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) m.fail_as(ErrorKind::data, key, "{} is not a file", file);
  if (access(file.c_str(), R_OK) != 0) m.fail_as(ErrorKind::data, key, "{} cannot be read", file);
  m.about(key, [&] { stages::file_kind(file, m->data.tokenizer); });
  if (!utf8::is_valid(file))
    m.fail_as(ErrorKind::data, key, "the file name {} is not UTF-8; rename it",
              stages::valid_utf8(file));
  const auto bytes = static_cast<std::int64_t>(fs::file_size(file));
  if (bytes == 0) m.fail_as(ErrorKind::data, key, "{} is empty", file);
  return bytes;
}

/// For joined samples.
void check_one_sample(const Manifest& m, const Text& text, std::int64_t tokens) {
  const std::int64_t seq_len = m->batch.seq_len;
  if (tokens > seq_len) return;
  m.fail_as(ErrorKind::data, text.key,
            "{} holds {}, but a sample takes batch.seq_len + 1 = {}; nearest: seq_len = {}",
            text.name, schedules::counted(tokens, "token"), seq_len + 1,
            std::max<std::int64_t>(tokens - 1, 1));
}

/// For a text of which no document makes a sample.
[[noreturn]] void fail_without_document(const Manifest& m, const Text& text, std::int64_t tokens,
                                        std::int64_t documents) {
  m.fail_as(ErrorKind::data, text.key,
            "{} holds {} in {}, but with batch.documents = '{}' a sample is a document of at least "
            "2 tokens{}",
            text.name, schedules::counted(tokens, "token"),
            schedules::counted(documents, "document"), m.text(m->batch.documents),
            m->data.loss_on == stages::LossOn::response ? ", one of them behind its prompt"
                                                        : "; 'joined' joins them");
}

/// The samples that a token file makes. Throws if there is none.
std::int64_t count_samples(const Manifest& m, const Text& text, const stages::TokenFile& tokens) {
  const stages::Documents documents = m->batch.documents;
  if (documents == stages::Documents::joined) check_one_sample(m, text, tokens.num_tokens());
  const stages::SampleTable samples(tokens, m->batch.seq_len, documents);
  if (samples.size() == 0)
    fail_without_document(m, text, tokens.num_tokens(), tokens.num_documents());
  return samples.size();
}

/// Throws if a text that is not yet tokenized is too short. Only a short file can be, and only
/// these are read: a larger one that holds less than a sample, as JSON around hardly any text, is
/// found when it is tokenized.
void check_length(const Manifest& m, const Text& text, std::int64_t bytes,
                  const stages::Tokenizer& tokenizer) {
  if (bytes > kShortBytes + kLongestTokenBytes * m->batch.seq_len) return;
  const stages::CorpusCount count = m.about(text.key, [&] {
    return stages::count_corpus(text.files, m->data.loss_on, m->batch.documents, m->data.rules,
                                tokenizer);
  });
  if (const std::string skipped = count.reading.skipped_sentence(); !skipped.empty())
    print_error("warning: " + skipped);
  if (m->batch.documents == stages::Documents::joined)
    check_one_sample(m, text, count.tokens);
  else if (count.with_targets == 0)
    fail_without_document(m, text, count.tokens, count.documents);
}

std::unique_ptr<stages::Tokenizer> open_tokenizer(const Manifest& m) {
  const std::string& name = m->data.tokenizer;
  std::error_code ignored;
  if (name != stages::kBytesTokenizer && !fs::exists(name, ignored))
    m.fail_as(ErrorKind::data, name, "{}: {}", name,
              stages::why_unreadable(name, "no such tokenizer; 'bytes' needs no file"));
  return m.about(name, [&] { return stages::Tokenizer::open(name); });
}

/// A token that a file beside the tokenizer names may lack a row of the model; if a text has it,
/// that is found when its ids are read.
void check_tokenizer(const Manifest& m, const stages::Tokenizer& tokenizer) {
  m.about(m->data.tokenizer,
          [&] { stages::marks_of(tokenizer, m->data.rules, m->batch.documents); });
  const int tokens = tokenizer.vocab_size();
  const std::int64_t vocab = m->model.vocab_size;
  if (tokens - stages::count_named_from(tokenizer, vocab) > vocab)
    m.fail(m->model.vocab_size,
           "model.vocab_size = {} is less than the {} tokens of data.tokenizer = '{}'; at least {}",
           vocab, tokens, m->data.tokenizer, tokens);
}

/// Reads every token id of a .bin, because an id without a row of the embedding would end the run
/// at some step. Returns their digest.
std::string check_dataset(const Manifest& m, const Text& text) {
  const auto tokens =
      m.about(text.key, [&] { return stages::TokenFile::open(text.files.front()); });
  count_samples(m, text, *tokens);
  m.about(text.key, [&] { stages::verify_dataset(text.files.front()); });
  return m.about(text.key, [&] { return stages::scan_tokens(*tokens, m->model.vocab_size); });
}

/// Checks files after globs were expanded. Returns the digest of their tokens if it is known
/// without tokenizing them.
std::string check_files(const Manifest& m, const Text& text) {
  const auto& files = text.files;
  if (m->data.loss_on == stages::LossOn::response)
    for (const std::string& file : files)
      m.about(text.key, [&] { stages::require_responses(file); });
  if (std::ranges::any_of(files, stages::is_indexed_dataset)) {
    if (files.size() > 1)
      m.fail(text.key, "{} lists a .bin token file with {} other files; it stands alone", text.name,
             files.size() - 1);
    open_tokenizer(m);  // only checks that it opens: the ids themselves are read below
    return check_dataset(m, text);
  }
  std::int64_t bytes = 0;
  for (const std::string& file : files) bytes += check_file(m, text.key, file);
  const auto tokenizer = open_tokenizer(m);
  check_tokenizer(m, *tokenizer);
  check_length(m, text, bytes, *tokenizer);
  return "";
}

/// Makes the token file of a text, names it in the row of the manifest that names the text, and
/// sets the digest of its tokens there if that is not known. Returns what it holds.
template <typename Row>
Corpus::Source prepare(const Manifest& m, const Key& key, Row& row,
                       const stages::EncodeOptions& options, Corpus& corpus) {
  const Text text = text_of(key, row);
  row.tokens = stages::prepare_tokens({.files = text.files,
                                       .tokenizer = m->data.tokenizer,
                                       .loss_on = m->data.loss_on,
                                       .documents = m->batch.documents,
                                       .rules = m->data.rules},
                                      token_cache(), options);
  corpus.holds.emplace_back(row.tokens);
  const auto tokens = stages::TokenFile::open(row.tokens);
  const std::int64_t samples = count_samples(m, text, *tokens);
  if (row.digest.empty()) row.digest = stages::scan_tokens(*tokens, m->model.vocab_size);
  return {.name = row.name,
          .tokens = tokens->num_tokens(),
          .samples = samples,
          .notes = stages::token_notes(row.tokens)};
}

/// What decides which samples a mixture draws: tokens and weights, in the order of the sources.
std::string digest_of(const Mix& mix) {
  std::string text;
  for (const Source& source : mix)
    text += fmt::format("{} {}\n", source.digest, to_toml(Value(source.weight)));
  return stages::to_hex(stages::xxh64(text));
}

/// Returns the digest of the text to train on.
std::string prepare_training(Manifest& m, const stages::EncodeOptions& options, Corpus& corpus) {
  Mix& mix = m->data.sources;
  if (mix.empty()) {
    Source source = m->text;
    source.digest = m->data.digest;
    corpus.sources = {prepare(m, m.key_of(m->text.files), source, options, corpus)};
    m->text.tokens = source.tokens;
    return source.digest;
  }
  double weights = 0;
  for (const Source& source : mix) weights += source.weight;
  for (Source& source : mix) {
    corpus.sources.push_back(prepare(m, m.key_of(mix), source, options, corpus));
    corpus.sources.back().share = source.weight / weights;
  }
  return digest_of(mix);
}

void prepare_evaluations(Manifest& m, const stages::EncodeOptions& options, Corpus& corpus) {
  const auto set_samples = [&](const Key& key, EvalSet& set) {
    set.samples = prepare(m, key, set, options, corpus).samples;
  };
  for (EvalSet& set : m->eval.sets) set_samples(m.key_of(m->eval.sets), set);
  if (!m->eval_text.files.empty()) set_samples(m.key_of(m->eval_text.files), m->eval_text);
}

/// The names of tokens that stand somewhere, as "<s> before"; empty for none.
std::string names_at(const stages::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                     const char* where) {
  std::string names;
  for (const std::int32_t id : ids) names += tokenizer.name_of(id);
  return names.empty() ? names : names + where;
}

/// What training and generation put around texts.
std::string framing_of(const Manifest& m) {
  if (std::ranges::any_of(m->text.files, stages::is_indexed_dataset))
    return "tokens are taken as the .bin has them";
  const auto tokenizer = open_tokenizer(m);
  const auto [before, after] =
      stages::marks_of(*tokenizer, m->data.rules, m->batch.documents).prompts;
  const std::string begin = names_at(*tokenizer, before, " before"),
                    end = names_at(*tokenizer, after, " behind"),
                    both = begin + (begin.empty() || end.empty() ? "" : " and ") + end;
  if (both.empty()) return "nothing is put around a text";
  const bool joins = m->batch.documents == stages::Documents::joined;
  if (joins && m->data.rules.bos == stages::kAutoMark &&
      m->data.rules.end_of_document == stages::kAutoMark)
    return fmt::format("nothing is put around joined texts; {} a prompt with its response", both);
  return fmt::format("{} each text, or prompt with its response", both);
}

fs::path cache_home() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return cache;
  if (const auto home = home_directory()) return *home / ".cache";
  throw Error(ErrorKind::data, "no place for token files: set XDG_CACHE_HOME or HOME");
}

}  // namespace

void check_corpus(Manifest& m) {
  const auto checked = [&m](const auto& member, auto& row) {
    const Key& key = m.key_of(member);
    row.files = expanded(m, text_of(key, row));
    return row.files.empty() ? "" : check_files(m, text_of(key, row));
  };
  const std::string digest = checked(m->text.files, m->text);
  if (!digest.empty()) m->data.digest = digest;
  for (Source& source : m->data.sources) source.digest = checked(m->data.sources, source);
  checked(m->eval_text.files, m->eval_text);
  for (EvalSet& set : m->eval.sets) set.digest = checked(m->eval.sets, set);
}

Corpus prepare_corpus(Manifest& m, const stages::EncodeOptions& options) {
  Corpus corpus{.sources = {}, .framing = framing_of(m), .holds = {}};
  if (m->eval.interval > 0) prepare_evaluations(m, options, corpus);
  m->data.digest = prepare_training(m, options, corpus);
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
