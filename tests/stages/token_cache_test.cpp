#include "stages/corpus/tokens/token_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <ctime>
#include <numeric>
#include <thread>

#include "stages/corpus/text/text_files.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokens/token_cache_pruning.h"
#include "stages/corpus/tokens/token_file.h"
#include "tests/stages/tokens_of_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(token_cache_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;
using test::text_of;
using test::tokens_of;

namespace {

struct Fixture {
  test::TempDir dir;
  std::string cache = (dir / "cache").string();

  std::string prepare(const std::vector<std::string>& files,
                      const std::string& tokenizer = "bytes") {
    return prepare_tokens({.files = files, .tokenizer = tokenizer}, cache);
  }
  std::size_t num_cached() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(cache), {}));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(token_cache, Fixture)

BOOST_AUTO_TEST_CASE(files_in_order_are_one_stream) {
  const std::string a = dir.write("a", "first "), b = dir.write("b", ""),
                    c = dir.write("c", "third\n");
  BOOST_TEST(text_of(prepare({c, b, a})) == "third\nfirst ");
  BOOST_TEST(text_of(prepare({a, c, a})) == "first third\nfirst ");
}

/// But for zero, which no text has.
BOOST_AUTO_TEST_CASE(every_byte_is_kept) {
  std::string all;
  for (int b = 1; b < 256; ++b) all += static_cast<char>(b);
  BOOST_TEST(text_of(prepare({dir.write("all", all)})) == all);
}

BOOST_AUTO_TEST_CASE(a_read_may_begin_anywhere) {
  const auto file = TokenFile::open(prepare({dir.write("text", "0123456789")}));
  std::vector<std::int32_t> ids(3);
  file->read(7, ids);
  BOOST_TEST((ids == std::vector<std::int32_t>{'7', '8', '9'}));
  file->read(10, {});
}

BOOST_AUTO_TEST_CASE(a_sentencepiece_corpus_is_each_file_encoded_whole) {
  std::string text;
  while (text.size() < kPieceBytes * 7 / 2) text += "the cat sat the cat\n";
  const std::string a = dir.write("a", text), b = dir.write("b", "cat sat");
  for (const bool dummy_prefix : {false, true}) {
    const std::string model = dir.write(dummy_prefix ? "prefix.model" : "plain.model",
                                        test::sentencepiece_model(0, dummy_prefix));
    std::vector<std::int32_t> expected;
    for (const std::string& content : {text, std::string("cat sat")})
      for (const std::int32_t id : Tokenizer::open(model)->encode(content)) expected.push_back(id);
    BOOST_TEST((tokens_of(prepare({a, b}, model)) == expected));
  }
}

BOOST_AUTO_TEST_CASE(the_ids_are_the_same_for_every_number_of_threads) {
  const std::string model = dir.write("tok.model", test::sentencepiece_model());
  std::string text;  // several batches, whatever the number of threads
  for (int i = 0; text.size() < (std::size_t{5} << 19); ++i)
    text += i % 7 == 0 ? "the cat sat\n" : i % 3 == 0 ? "sat " : "cat the\n\n";
  const std::string file = dir.write("text", text);
  std::string one;
  for (const int threads : {1, 2, 3}) {
    std::vector<std::uint64_t> seen;
    const std::string path = prepare_tokens(
        {.files = {file}, .tokenizer = model}, (dir / std::to_string(threads)).string(),
        {.threads = threads, .progress = [&](std::uint64_t done, std::uint64_t total) {
           BOOST_TEST(total == text.size());
           seen.push_back(done);
         }});
    BOOST_TEST(std::ranges::is_sorted(seen));
    BOOST_TEST(seen.back() == text.size());
    if (threads == 1) one = test::content_of(path);
    BOOST_TEST((test::content_of(path) == one));
  }
}

BOOST_AUTO_TEST_CASE(work_that_is_stopped_leaves_nothing) {
  const std::string file = dir.write("text", std::string(std::size_t{5} << 20, 'x'));
  BOOST_CHECK_THROW(
      prepare_tokens({.files = {file}}, cache,
                     {.threads = 2,
                      .progress = [](std::uint64_t,
                                     std::uint64_t) { throw Error(ErrorKind::retry, "stopped"); }}),
      Error);
  BOOST_TEST(num_cached() == 0u);
}

namespace {

/// Sets the times of last use and last write, each in seconds ago.
void set_times(const std::filesystem::path& path, std::time_t used, std::time_t written) {
  const std::time_t now = std::time(nullptr);
  const timespec times[] = {{.tv_sec = now - used, .tv_nsec = 0},
                            {.tv_sec = now - written, .tv_nsec = 0}};
  BOOST_REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_cache_is_pruned_by_age_and_size) {
  constexpr std::time_t kHour = 3600, kDay = 24 * kHour;
  std::filesystem::create_directory(cache);
  const auto file = [&](char digit, std::time_t used, const std::string& ending = "") {
    const std::string path =
        dir.write("cache/" + std::string(16, digit) + ".tokens" + ending, std::string(100, 'x'));
    set_times(path, used, used);
    return path;
  };
  const std::string old = file('0', 31 * kDay), held = file('1', 31 * kDay),
                    large = file('2', 2 * kDay), kept = file('3', kDay), fresh = file('4', 60),
                    abandoned = file('5', 2 * kDay, ".Ab12Cd"), growing = file('6', 60, ".Ab12Cd");
  const std::string foreign = dir.write("cache/notes.txt", "not ours");
  set_times(foreign, 100 * kDay, 100 * kDay);
  const TokenCacheHold hold(held);
  prune_token_cache(cache, {.bytes = 300});
  for (const std::string& path : {held, kept, fresh, growing, foreign})
    BOOST_TEST(std::filesystem::exists(path), path);
  for (const std::string& path : {old, large, abandoned})
    BOOST_TEST(!std::filesystem::exists(path), path);
  // A file that was used within the hour stays, whatever its size.
  set_times(kept, 60, kDay);
  prune_token_cache(cache, {.bytes = 0});
  BOOST_TEST(std::filesystem::exists(kept));
}

BOOST_AUTO_TEST_CASE(a_use_keeps_a_file_and_makes_room_of_others) {
  const std::string text = dir.write("text", "one"), other = dir.write("other", "two");
  const std::string path = prepare({text});
  set_times(path, 40 * 24 * 3600, 40 * 24 * 3600);
  BOOST_TEST(prepare({text}) == path);
  prepare({other});
  BOOST_TEST(num_cached() == 2u);
  set_times(path, 40 * 24 * 3600, 40 * 24 * 3600);
  prepare({other});
  BOOST_TEST(num_cached() == 1u);
}

BOOST_AUTO_TEST_CASE(the_width_of_an_id_follows_the_vocabulary) {
  const std::string text = dir.write("text", "the cat sat\n");
  const auto width = [&](int extra) {
    const std::string name = "tok" + std::to_string(extra) + ".model";
    const std::string model = dir.write(name, test::sentencepiece_model(extra));
    const std::string path = prepare({text}, model);
    BOOST_TEST((tokens_of(path) == std::vector<std::int32_t>{3, 6, 4, 5, 7}));
    return read_token_cache_trailer(path).width;
  };
  const int own = 3 + 5 + 26;  // pieces of the model, without extra pieces
  BOOST_TEST((width(256 - own) == TokenWidth::u8));
  BOOST_TEST((width(257 - own) == TokenWidth::u16));
  BOOST_TEST((width(65536 - own) == TokenWidth::u16));
  BOOST_TEST((width(65537 - own) == TokenWidth::i32));
}

BOOST_AUTO_TEST_CASE(the_cache_is_found_again_until_its_source_changes) {
  const std::string text = dir.write("text", "one"), other = dir.write("other", "one");
  const std::string path = prepare({text});
  const auto written = std::filesystem::last_write_time(path);
  BOOST_TEST(prepare({text}) == path);
  BOOST_TEST((std::filesystem::last_write_time(path) == written));
  BOOST_TEST(prepare({other}) != path);
  std::filesystem::last_write_time(
      text, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  BOOST_TEST(prepare({text}) != path);
  dir.write("text", "longer");
  BOOST_TEST(text_of(prepare({text})) == "longer");
}

// As cp -p, rsync -a and tar leave a file of another content: of the same size and time.
BOOST_AUTO_TEST_CASE(a_source_that_keeps_size_and_time_is_read_anew) {
  const std::string text = dir.write("text", "one"), other = dir.write("other", "two");
  set_times(text, 5, 3600);
  BOOST_TEST(text_of(prepare({text})) == "one");
  const auto written = std::filesystem::last_write_time(text);
  dir.write("text", "ten");
  std::filesystem::last_write_time(text, written);
  BOOST_TEST(text_of(prepare({text})) == "ten");
  std::filesystem::last_write_time(other, written);
  std::filesystem::rename(other, text);
  BOOST_TEST(text_of(prepare({text})) == "two");
}

BOOST_AUTO_TEST_CASE(another_tokenizer_is_another_cache) {
  const std::string text = dir.write("text", "the cat");
  const std::string model = dir.write("tok.model", test::sentencepiece_model());
  const std::string first = prepare({text}, model);
  BOOST_TEST(prepare({text}) != first);
  dir.write("tok.model", test::sentencepiece_model(1));
  BOOST_TEST(prepare({text}, model) != first);
}

BOOST_AUTO_TEST_CASE(a_damaged_cache_is_written_anew) {
  const std::string text = dir.write("text", "the whole text");
  const std::string path = prepare({text});
  const std::string good = test::content_of(path);
  std::string wrong_count = good, wrong_key = good, wrong_end = good, wrong_id = good;
  wrong_id[4] = 'Z';
  wrong_count[good.size() - 64] ^= 1;
  wrong_key[good.size() - 73] ^= 1;
  wrong_end[std::string("the whole text").size()] ^= 1;
  for (const std::string& bad :
       {std::string(), std::string("foreign"), good.substr(0, good.size() - 1), good.substr(1),
        "x" + good, wrong_count, wrong_key, wrong_end, wrong_id}) {
    std::ofstream(path, std::ios::binary) << bad;
    BOOST_TEST(text_of(prepare({text})) == "the whole text");
  }
  BOOST_TEST(num_cached() == 1u);
}

BOOST_AUTO_TEST_CASE(a_sound_cache_of_another_source_is_not_taken) {
  const std::string a = dir.write("a", "text of a"), b = dir.write("b", "text of b");
  const std::string path_a = prepare({a}), path_b = prepare({b});
  std::filesystem::copy_file(path_b, path_a, std::filesystem::copy_options::overwrite_existing);
  BOOST_TEST(text_of(prepare({a})) == "text of a");
}

BOOST_AUTO_TEST_CASE(processes_that_prepare_at_once_all_get_the_whole_stream) {
  const std::string content(3 * kPieceBytes, 'x');
  const std::string text = dir.write("text", content);
  std::vector<std::string> seen(4);
  std::vector<std::thread> launches;
  for (std::string& result : seen)
    launches.emplace_back([&] { result = text_of(prepare({text})); });
  for (std::thread& launch : launches) launch.join();
  for (const std::string& result : seen) BOOST_TEST((result == content));
  BOOST_TEST(num_cached() == 1u);
}

BOOST_AUTO_TEST_CASE(missing_and_empty_files_are_named) {
  expect_error(ErrorKind::data, {"nowhere.txt", "No such file"},
               [&] { prepare({(dir / "nowhere.txt").string()}); });
  const std::string empty = dir.write("empty.txt", "");
  expect_error(ErrorKind::data, {"empty.txt", "empty"}, [&] { prepare({empty}); });
  BOOST_TEST(num_cached() == 0u);
  expect_error(ErrorKind::data, {dir.path().string(), "Is a directory"},
               [&] { prepare({dir.path().string()}); });
  expect_error(ErrorKind::data, {"no data files"}, [&] { prepare({}); });
  expect_error(ErrorKind::data, {"nowhere.model"},
               [&] { prepare({empty}, (dir / "nowhere.model").string()); });
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_no_cache) {
  const std::string text = dir.write("text", std::string(5000, 'x'));
  {
    const test::FileSizeLimit limit(1000);
    expect_error(ErrorKind::internal, {cache, "File too large"}, [&] { prepare({text}); });
  }
  BOOST_TEST(num_cached() == 0u);
  BOOST_TEST(tokens_of(prepare({text})).size() == 5000u);
}

BOOST_AUTO_TEST_CASE(what_is_no_token_file_is_refused_by_name) {
  const std::string good = test::content_of(prepare({dir.write("text", "text")}));
  const auto refused = [&](const std::string& content, const std::string& why) {
    const std::string path = dir.write("bad.tokens", content);
    expect_error(ErrorKind::data, {"bad.tokens", why}, [&] { TokenFile::open(path); });
  };
  const auto with = [&](std::size_t from_end, char value) {
    std::string bad = good;
    bad[bad.size() - from_end] = value;
    return bad;
  };
  refused("", "0 bytes");
  refused(std::string(100, 'x'), "TROUPETK");
  refused(with(20, 9), "version 9");
  refused(with(24, 3), "3 bytes per token");
  for (const std::size_t count : {64, 56, 48, 40}) {  // of words, tokens, documents, spans
    refused(with(count, 5), "do not make its");
    refused(with(count - 7, '\x80'), "do not make its");  // beyond 2^63
  }
  refused(good.substr(1), "do not make its");
  refused(with(81, 'X'), "checksum");
  std::string bad_end = good;
  bad_end[std::string("text").size()] = 3;
  refused(bad_end, "ends of its documents");
  const std::string lines = dir.write("a.jsonl", "{\"prompt\": \"abc\", \"response\": \"d\"}\n");
  const std::string masked =
      test::content_of(prepare_tokens({.files = {lines}, .loss_on = LossOn::response}, cache));
  for (const auto& [at, byte] : {std::pair{12, 3}, {12 + 7, 0xff}, {20, 5}, {20 + 7, 0xff}}) {
    std::string bad_span = masked;  // four ids, the document's end, begin and end of its prompt
    bad_span[static_cast<std::size_t>(at)] = static_cast<char>(byte);
    refused(bad_span, "the spans that are no targets");
  }
  expect_error(ErrorKind::data, {"nowhere"}, [&] { TokenFile::open((dir / "nowhere").string()); });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
