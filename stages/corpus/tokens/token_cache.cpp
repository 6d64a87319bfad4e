#include "stages/corpus/tokens/token_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cstring>
#include <optional>
#include <span>

#include "stages/corpus/chat/chat_date.h"
#include "stages/corpus/chat/chat_template.h"
#include "stages/corpus/text/corpus_files.h"
#include "stages/corpus/text/file_kind.h"
#include "stages/corpus/text/indexed_dataset.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"
#include "stages/corpus/tokens/token_cache_pruning.h"
#include "stages/corpus/tokens/token_file.h"
#include "stages/storage/input_file.h"
#include "stages/storage/mapped_file.h"
#include "stages/storage/output_file.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// Version of the rules that give a text its ids; part of the key.
constexpr int kKeyVersion = 6;

std::uint64_t sum_of(const TokenCacheTrailer& trailer, const TokenCacheWords& words) {
  Xxh64 sum;
  sum.update(std::as_bytes(std::span(words.notes)));
  sum.update(std::as_bytes(std::span(words.key)));
  sum.update(std::as_bytes(std::span(&trailer, 1)).first(offsetof(TokenCacheTrailer, sum)));
  return sum.digest();
}

/// Whether ids, documents, spans, notes and key are `body` bytes long. Divisions come first,
/// because the products could overflow.
bool fits(const TokenCacheTrailer& trailer, std::uint64_t body) {
  if (trailer.key_bytes > body || trailer.notes_bytes > body - trailer.key_bytes) return false;
  std::uint64_t rest = body - trailer.key_bytes - trailer.notes_bytes;
  if (trailer.num_documents > rest / sizeof(std::int64_t)) return false;
  rest -= trailer.num_documents * sizeof(std::int64_t);
  if (trailer.num_masked > rest / sizeof(TokenSpan)) return false;
  rest -= trailer.num_masked * sizeof(TokenSpan);
  const std::size_t width = bytes_of(trailer.width);
  return rest % width == 0 && rest / width == trailer.num_tokens;
}

/// A line that changes whenever the file's content may have. Size and time of the last write are
/// what tools set that keep them (cp -p, rsync -a, tar), or another file brings along that is moved
/// to the name; the number of the file and the time of its last change are the system's own.
std::string identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw Error(ErrorKind::data, fmt::format("data file {}: {}", path, std::strerror(errno)));
  return fmt::format("{} size {} mtime {}.{:09} ctime {}.{:09} inode {}",
                     std::filesystem::canonical(path).string(), status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec, status.st_ino);
}

/// What decides how records are read.
std::string key_of_records(const TokenSource& source) {
  const TextRules& rules = source.rules;
  std::string key;
  for (const auto& [name, theirs] : rules.fields) key += fmt::format("{} is {}\n", name, theirs);
  if (rules.on_bad_line == BadLines::skip) key += "bad lines are skipped\n";
  if (chat_template_reads_date(source.tokenizer))
    key += fmt::format("date {}\n", rules.date.empty() ? today() : rules.date);
  return key;
}

std::string key_of(const TokenSource& source) {
  std::string key = fmt::format("troupe tokens, version {}\n", kKeyVersion);
  key += source.tokenizer == kBytesTokenizer
             ? fmt::format("tokenizer {}\n", kBytesTokenizer)
             : fmt::format("tokenizer {}\n", identity_of(source.tokenizer));
  const char* records = source.loss_on == LossOn::response ? "responses" : "documents";
  bool has_records = false;
  for (const std::string& file : source.files) {
    const bool is_text = file_kind(file) == FileKind::text;
    has_records |= !is_text;
    key += fmt::format("{} {}\n", is_text ? "file" : records, identity_of(file));
  }
  if (has_records) key += key_of_records(source);
  for (const auto& [mark, place] :
       {std::pair(source.rules.bos, "before"), std::pair(source.rules.end_of_document, "behind")})
    if (mark != kAutoMark) key += fmt::format("{} {} each document\n", mark, place);
  const auto beside = files_beside(source.tokenizer);
  for (const auto& file : beside) key += fmt::format("beside it {}\n", identity_of(file));
  if (!beside.empty())
    key += fmt::format("written by version {}\n",
                       TokenizerConfig(beside[0].parent_path()).transformers_version());
  if (source.tokenizer != kBytesTokenizer)
    key += source.documents == Documents::joined ? "texts are joined\n" : "texts are apart\n";
  return key;
}

std::uint64_t sum_of(std::span<const std::int64_t> ends, std::span<const TokenSpan> masked) {
  Xxh64 sum;
  sum.update(std::as_bytes(ends));
  sum.update(std::as_bytes(masked));
  return sum.digest();
}

/// Whether the file has the bytes that were written, which a disk, a crash of the machine or
/// another program may have changed since.
bool is_intact(const std::filesystem::path& cache, const TokenCacheTrailer& trailer) {
  const MappedFile file = MappedFile::open(cache);
  const std::uint64_t ids = trailer.ids_bytes(), bounds = trailer.bounds_bytes();
  return file.bytes().size() >= ids + bounds && xxh64(file.bytes().first(ids)) == trailer.ids_sum &&
         xxh64(file.bytes().subspan(ids, bounds)) == trailer.bounds_sum;
}

bool holds(const std::filesystem::path& cache, const std::string& key) {
  if (!file_exists(cache)) return false;
  try {
    TokenCacheWords found;
    const TokenCacheTrailer trailer = read_token_cache_trailer(cache, &found);
    return found.key == key && is_intact(cache, trailer);
  } catch (const Error&) {
    return false;  // torn or foreign: it is written anew
  }
}

TokenWidth width_for(int vocab_size) {
  return vocab_size <= 0x100     ? TokenWidth::u8
         : vocab_size <= 0x10000 ? TokenWidth::u16
                                 : TokenWidth::i32;
}

void write_cache(const TokenSource& source, const std::string& key,
                 const std::filesystem::path& path, const EncodeOptions& options) {
  TROUPE_ASSERT(options.append.empty());
  const auto tokenizer = Tokenizer::open(source.tokenizer);
  const TokenWidth width = width_for(tokenizer->vocab_size());
  PublishedFile cache(path);
  TokenWriter tokens(cache.file(), width);
  std::vector<std::int64_t> documents;  // the end of each
  std::vector<TokenSpan> masked;
  std::int64_t part = 0;  // where the prompt or response begins
  const auto add = [&](std::span<const std::int32_t> ids, Ends ends) {
    tokens.append(ids);
    const std::int64_t end = tokens.num_tokens();
    if (ends == Ends::document) documents.push_back(end);
    if (ends == Ends::prompt && source.loss_on == LossOn::response && end > part)
      masked.push_back({.begin = part, .end = end});
    if (ends == Ends::prompt || ends == Ends::response || ends == Ends::document) part = end;
  };
  CorpusEncoder encoder(*tokenizer,
                        for_training(options, *tokenizer, source.documents, source.rules),
                        size_of_files(source.files), add);
  CorpusReading reading;
  for (const std::string& file : source.files)
    add_file(file, source.loss_on, source.rules, encoder, reading);
  encoder.finish();
  if (tokens.num_tokens() == 0)
    throw Error(ErrorKind::data,
                fmt::format("the corpus is empty: no token in {}", fmt::join(source.files, ", ")));
  if (key_of(source) != key)
    throw Error(ErrorKind::data, fmt::format("a data file changed while it was read, one of {}",
                                             fmt::join(source.files, ", ")));
  const TokenCacheWords words{.notes = reading.sentences(), .key = key};
  TokenCacheTrailer trailer{.ids_sum = tokens.sum(),
                            .bounds_sum = sum_of(documents, masked),
                            .notes_bytes = words.notes.size(),
                            .num_tokens = static_cast<std::uint64_t>(tokens.num_tokens()),
                            .num_documents = documents.size(),
                            .num_masked = masked.size(),
                            .key_bytes = key.size(),
                            .width = width};
  cache.file().write(std::as_bytes(std::span(documents)));
  cache.file().write(std::as_bytes(std::span(masked)));
  trailer.sum = sum_of(trailer, words);
  cache.file().write(words.notes);
  cache.file().write(key);
  cache.file().write(std::as_bytes(std::span(&trailer, 1)));
  cache.publish();
}

void create_directory(const std::string& dir) {
  std::error_code code;
  std::filesystem::create_directories(dir, code);
  if (code)
    throw Error(ErrorKind::internal,
                fmt::format("token cache directory {}: cannot create: {}", dir, code.message()));
}

}  // namespace

std::string prepare_tokens(const TokenSource& source, const std::string& cache_dir,
                           const EncodeOptions& options) {
  if (source.files.empty())
    throw Error(ErrorKind::data, "no data files are given; name text files or a .bin/.idx dataset");
  if (source.loss_on == LossOn::response)
    for (const std::string& file : source.files) require_responses(file);
  for (const std::string& file : source.files) {
    if (!is_indexed_dataset(file)) continue;
    if (source.files.size() > 1)
      throw Error(
          ErrorKind::data,
          fmt::format("{}: a .bin/.idx dataset must be the only data file, but {} are given", file,
                      source.files.size()));
    const DatasetDocuments checked(file);
    return file;
  }
  const std::string key = key_of(source);
  const auto cache = std::filesystem::path(cache_dir) / (to_hex(xxh64(key)) + ".tokens");
  create_directory(cache_dir);
  if (!holds(cache, key)) write_cache(source, key, cache, options);
  mark_used(cache);
  prune_token_cache(cache_dir);
  return cache.string();
}

std::string token_notes(const std::string& tokens) {
  if (is_indexed_dataset(tokens)) return "";
  TokenCacheWords words;
  read_token_cache_trailer(tokens, &words);
  return words.notes;
}

TokenCacheTrailer read_token_cache_trailer(const std::filesystem::path& path,
                                           TokenCacheWords* words) {
  const auto refuse = [&path](const std::string& why) {
    return Error(ErrorKind::data, fmt::format("{}: not a token file: {}", path.string(), why));
  };
  const InputFile file = InputFile::open(path);
  TokenCacheTrailer trailer;
  if (file.size() < sizeof trailer)
    throw refuse(fmt::format("{} bytes, a trailer alone has {}", file.size(), sizeof trailer));
  const std::uint64_t body = file.size() - sizeof trailer;
  file.read(body, std::as_writable_bytes(std::span(&trailer, 1)));
  if (trailer.magic != kTokenCacheMagic) throw refuse("it does not end in TROUPETK");
  if (trailer.version != kTokenCacheVersion)
    throw refuse(fmt::format("version {}, expected {}", trailer.version, kTokenCacheVersion));
  const std::size_t width = bytes_of(trailer.width);
  if (width != 1 && width != 2 && width != 4)
    throw refuse(fmt::format("{} bytes per token, expected 1, 2 or 4", width));
  if (!fits(trailer, body))
    throw refuse(
        fmt::format("{} tokens of {} bytes, {} documents, {} spans, notes of {} bytes and a key of "
                    "{} bytes do not make its {} bytes",
                    trailer.num_tokens, width, trailer.num_documents, trailer.num_masked,
                    trailer.notes_bytes, trailer.key_bytes, file.size()));
  TokenCacheWords found{.notes = std::string(trailer.notes_bytes, '\0'),
                        .key = std::string(trailer.key_bytes, '\0')};
  const std::uint64_t key_begin = body - trailer.key_bytes;
  file.read(key_begin - trailer.notes_bytes, std::as_writable_bytes(std::span(found.notes)));
  file.read(key_begin, std::as_writable_bytes(std::span(found.key)));
  if (sum_of(trailer, found) != trailer.sum) throw refuse("the checksum of its trailer is wrong");
  if (words) *words = std::move(found);
  return trailer;
}

}  // namespace troupe::stages
