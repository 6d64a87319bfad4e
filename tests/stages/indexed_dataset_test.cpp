#include "stages/corpus/text/indexed_dataset.h"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "stages/corpus/text/text_files.h"
#include "stages/corpus/tokens/token_cache.h"
#include "stages/corpus/tokens/token_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(indexed_dataset_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;

namespace {

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// An .idx put together from its parts without the code under test.
std::string idx(std::uint8_t code, const std::vector<std::int32_t>& lengths,
                const std::vector<std::int64_t>& offsets,
                const std::vector<std::int64_t>& documents) {
  return std::string("MMIDIDX\0\0", 9) + raw<std::uint64_t>({1}) + static_cast<char>(code) +
         raw<std::uint64_t>({lengths.size()}) + raw<std::uint64_t>({documents.size()}) +
         raw(lengths) + raw(offsets) + raw(documents);
}

struct Fixture {
  test::TempDir dir;
  std::string prefix = (dir / "set").string();

  void write(const std::string& index, const std::string& bin) {
    dir.write("set.idx", index);
    dir.write("set.bin", bin);
  }
  void refused(const std::string& index, const std::string& bin, const std::string& why) {
    write(index, bin);
    expect_error(ErrorKind::data, {"set.idx", why}, [&] { DatasetDocuments(prefix).index(); });
  }
  std::vector<std::int32_t> tokens(const std::string& path) {
    const auto file = TokenFile::open(path);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file->num_tokens()));
    file->read(0, ids);
    return ids;
  }
};

const std::string kSixteenBits = raw<std::uint16_t>({7, 65000, 9});
const std::string kSound = idx(8, {2, 1}, {0, 4}, {0, 1, 2});

}  // namespace

BOOST_FIXTURE_TEST_SUITE(indexed_dataset, Fixture)

BOOST_AUTO_TEST_CASE(documents_are_one_stream_in_each_dtype) {
  write(kSound, kSixteenBits);
  const std::vector<std::int32_t> expected = {7, 65000, 9};
  BOOST_TEST(tokens(prefix) == expected, boost::test_tools::per_element());
  BOOST_TEST(tokens(prefix + ".bin") == expected, boost::test_tools::per_element());
  write(idx(4, {3}, {0}, {0, 1}), raw<std::int32_t>({70000, 1, 2}));
  BOOST_TEST((tokens(prefix) == std::vector<std::int32_t>{70000, 1, 2}));
  write(idx(1, {1, 0, 2}, {0, 1, 1}, {0, 3}), "abc");
  BOOST_TEST((tokens(prefix) == std::vector<std::int32_t>{'a', 'b', 'c'}));
}

BOOST_AUTO_TEST_CASE(the_index_counts) {
  write(kSound, kSixteenBits);
  const DatasetIndex index = DatasetDocuments(prefix).index();
  BOOST_TEST(index.num_sequences == 2);
  BOOST_TEST(index.num_documents == 2);
  BOOST_TEST(index.num_tokens == 3);
}

BOOST_AUTO_TEST_CASE(a_wrong_index_is_refused_with_its_rule) {
  const auto with = [](std::size_t at, char value) {
    std::string bad = kSound;
    bad[at] = value;
    return bad;
  };
  refused(kSound.substr(0, 33), kSixteenBits, "33 bytes");
  refused(with(0, 'm'), kSixteenBits, "MMIDIDX");
  refused(with(9, 2), kSixteenBits, "version 2");
  refused(with(17, 7), kSixteenBits, "dtype code 7");
  refused(with(18, 3), kSixteenBits, "3 sequences");
  refused(with(25, '\xff'), kSixteenBits, "do not make its");
  refused(with(33, '\xff'), kSixteenBits, "do not make its");
  refused(kSound + "x", kSixteenBits, "do not make its");
  refused(idx(8, {2, -1}, {0, 4}, {0, 1, 2}), kSixteenBits, "sequence 1 has -1 tokens");
  refused(idx(8, {2, 1}, {0, 6}, {0, 1, 2}), kSixteenBits, "sequence 1 begins at byte 6");
  refused(idx(8, {2, 1}, {0, -4}, {0, 1, 2}), kSixteenBits, "sequence 1 begins at byte -4");
  refused(kSound, kSixteenBits.substr(1), "the .bin has 5");
  refused(idx(8, {2, 1}, {0, 4}, {}), kSixteenBits, "no document boundaries");
  refused(idx(8, {2, 1}, {0, 4}, {0, 1}), kSixteenBits, "expected 0 to 2");
  refused(idx(8, {2, 1}, {0, 4}, {0, 2, 1, 2}), kSixteenBits, "document 1 ends before");
}

BOOST_AUTO_TEST_CASE(a_half_or_empty_dataset_is_refused) {
  dir.write("set.bin", "abc");
  expect_error(ErrorKind::data, {"set.idx", "No such file"},
               [&] { TokenFile::open(prefix + ".bin"); });
  write(idx(8, {}, {}, {0}), "");
  expect_error(ErrorKind::data, {"set.bin", "empty"}, [&] { TokenFile::open(prefix); });
}

BOOST_AUTO_TEST_CASE(a_dataset_that_is_cut_while_it_is_open_is_an_error_and_no_signal) {
  write(idx(8, {50000, 50000}, {0, 100000}, {0, 1, 2}), raw(std::vector<std::uint16_t>(100000, 7)));
  const auto file = TokenFile::open(prefix);
  file->refuse_if_cut();
  std::filesystem::resize_file(prefix + ".bin", 3);
  std::vector<std::int32_t> ids(1);
  file->read(0, ids);
  BOOST_TEST(ids[0] == 7);
  ids.resize(50000);
  expect_error(ErrorKind::data, {"set.bin", "cut while it was in use", "ends at byte 3"},
               [&] { file->read(0, ids); });
  file->refuse_if_cut();
  std::filesystem::resize_file(prefix + ".idx", 40);
  expect_error(ErrorKind::data, {"set.idx: 40 bytes"}, [&] { file->refuse_if_cut(); });
}

BOOST_AUTO_TEST_CASE(a_dataset_is_used_as_it_is_and_alone) {
  write(kSound, kSixteenBits);
  const std::string cache = (dir / "cache").string();
  BOOST_TEST(prepare_tokens({.files = {prefix + ".bin"}}, cache) == prefix + ".bin");
  BOOST_TEST(prepare_tokens({.files = {prefix}}, cache) == prefix);
  BOOST_TEST(!std::filesystem::exists(cache));
  const std::string text = dir.write("text", "x");
  expect_error(ErrorKind::data, {"set.bin", "only data file"}, [&] {
    prepare_tokens({.files = {text, prefix + ".bin"}}, cache);
  });
}

BOOST_AUTO_TEST_CASE(json_lines_become_documents) {
  const std::string lines = dir.write(
      "in.jsonl", "{\"text\": \"ab\", \"id\": 1}\n\n{\"text\": \"\"}\n{\"text\":\"\\u00e4\"}");
  const DatasetIndex index = write_indexed_dataset({lines}, *Tokenizer::open("bytes"), prefix);
  BOOST_TEST(index.num_documents == 3);
  BOOST_TEST(test::content_of(prefix + ".bin") == raw<std::uint16_t>({'a', 'b', 0xc3, 0xa4}));
  BOOST_TEST(test::content_of(prefix + ".idx") == idx(8, {2, 0, 2}, {0, 4, 4}, {0, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(invalid_utf8_in_json_lines_is_replaced) {
  const std::string lines = dir.write("in.jsonl", "{\"text\": \"a\xff\xe2\x82\"}");
  write_indexed_dataset({lines}, *Tokenizer::open("bytes"), prefix);
  BOOST_TEST(test::content_of(prefix + ".bin") ==
             raw<std::uint16_t>({'a', 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd}));
}

BOOST_AUTO_TEST_CASE(what_frames_a_document_is_in_its_first_and_last_sequence) {
  const std::string text = dir.write("a.txt", std::string(kPieceBytes + 1, 'a')),
                    empty = dir.write("b.jsonl", "{\"text\": \"\"}");
  write_indexed_dataset({text, empty}, *Tokenizer::open("bytes"), prefix,
                        {.marks = {.prompts = {.before = {1, 2}, .after = {3}},
                                   .texts = {.before = {1, 2}, .after = {3}}},
                         .append = {4}});
  BOOST_TEST(
      test::content_of(prefix + ".idx") ==
      idx(8, {kPieceBytes + 2, 3, 4}, {0, 2 * kPieceBytes + 4, 2 * kPieceBytes + 10}, {0, 2, 3}));
  const std::vector<std::int32_t> ids = tokens(prefix);
  BOOST_TEST((std::vector(ids.begin(), ids.begin() + 3) == std::vector<std::int32_t>{1, 2, 'a'}));
  BOOST_TEST(
      (std::vector(ids.end() - 7, ids.end()) == std::vector<std::int32_t>{'a', 3, 4, 1, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(a_text_file_is_one_document_of_its_pieces) {
  const std::string a = dir.write("a.txt", std::string(kPieceBytes + 5, 'a')),
                    b = dir.write("b.txt", "b");
  const DatasetIndex index = write_indexed_dataset({a, b}, *Tokenizer::open("bytes"), prefix);
  BOOST_TEST(index.num_documents == 2);
  BOOST_TEST(index.num_sequences == 3);
  BOOST_TEST(DatasetDocuments(prefix).index().num_tokens ==
             static_cast<std::int64_t>(kPieceBytes) + 6);
  BOOST_TEST(test::content_of(prefix + ".idx") ==
             idx(8, {kPieceBytes, 5, 1}, {0, 2 * kPieceBytes, 2 * kPieceBytes + 10}, {0, 2, 3}));
}

BOOST_AUTO_TEST_CASE(ids_take_32_bits_from_a_vocabulary_of_65500) {
  const std::string text = dir.write("text", "the cat");
  const int own = 3 + 5 + 26;
  const std::string below = dir.write("a.model", test::sentencepiece_model(65499 - own));
  const std::string at = dir.write("b.model", test::sentencepiece_model(65500 - own));
  write_indexed_dataset({text}, *Tokenizer::open(below), (dir / "narrow").string());
  write_indexed_dataset({text}, *Tokenizer::open(at), (dir / "wide").string());
  BOOST_TEST(test::content_of(dir / "narrow.bin") == raw<std::uint16_t>({3, 6, 4}));
  BOOST_TEST(test::content_of(dir / "wide.bin") == raw<std::int32_t>({3, 6, 4}));
  BOOST_TEST((tokens((dir / "wide").string()) == std::vector<std::int32_t>{3, 6, 4}));
}

BOOST_AUTO_TEST_CASE(malformed_input_is_refused_with_file_and_line_and_nothing_is_left) {
  const auto refuse = [&](const std::string& lines, const std::string& place,
                          const std::string& why = "\"text\"") {
    const std::string path = dir.write("in.jsonl", lines);
    expect_error(ErrorKind::data, {place, why},
                 [&] { write_indexed_dataset({path}, *Tokenizer::open("bytes"), prefix); });
  };
  refuse("{\"text\": \"a\"}\n{\"text\": 3}\n", "in.jsonl:2");
  refuse("[1]\n", "in.jsonl:1");
  refuse("{\"texts\": \"a\"}", "in.jsonl:1");
  refuse("{\"text\": \"a\"", "in.jsonl:1", "column 13");
  expect_error(ErrorKind::data, {"nowhere.jsonl", "No such file"}, [&] {
    write_indexed_dataset({(dir / "nowhere.jsonl").string()}, *Tokenizer::open("bytes"), prefix);
  });
  const std::string empty = dir.write("empty.txt", "");
  expect_error(ErrorKind::data, {"empty.txt"},
               [&] { write_indexed_dataset({empty}, *Tokenizer::open("bytes"), prefix); });
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    BOOST_TEST(!entry.path().filename().string().starts_with("set"));
}

BOOST_AUTO_TEST_CASE(tokens_are_no_text) {
  const std::string text = dir.write("a.txt", "abc");
  write_indexed_dataset({text}, *Tokenizer::open("bytes"), prefix);
  for (const std::string& name : {prefix + ".bin", prefix + ".idx", dir.write("b.gz", "x")})
    expect_error(ErrorKind::data, {name, "no text"}, [&] {
      write_indexed_dataset({text, name}, *Tokenizer::open("bytes"), dir / "other");
    });
  BOOST_TEST(!std::filesystem::exists(dir / "other.bin"));
}

BOOST_AUTO_TEST_CASE(bytes_that_were_changed_since_are_found) {
  write_indexed_dataset({dir.write("text", "the cat sat")}, *Tokenizer::open("bytes"), prefix);
  verify_dataset(prefix);
  for (const std::string& file : {bin_path(prefix), idx_path(prefix)}) {
    const std::string good = test::content_of(file);
    std::string bad = good;
    bad[bad.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bad;
    expect_error(ErrorKind::data, {file, "are not those that were written", "set.xxh64"},
                 [&] { verify_dataset(prefix); });
    std::ofstream(file, std::ios::binary) << good;
  }
  std::filesystem::remove(sums_path(prefix));  // of a dataset that another program wrote
  verify_dataset(prefix);
}

BOOST_AUTO_TEST_CASE(an_existing_dataset_is_not_replaced) {
  write(kSound, kSixteenBits);
  const std::string text = dir.write("text", "x");
  expect_error(ErrorKind::data, {"set.bin", "exists"},
               [&] { write_indexed_dataset({text}, *Tokenizer::open("bytes"), prefix); });
  BOOST_TEST(test::content_of(prefix + ".bin") == kSixteenBits);
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_no_dataset) {
  const std::string text = dir.write("text", std::string(5000, 'x'));
  const test::FileSizeLimit limit(1000);
  expect_error(ErrorKind::internal, {"set.bin", "File too large"},
               [&] { write_indexed_dataset({text}, *Tokenizer::open("bytes"), prefix); });
  BOOST_TEST(!std::filesystem::exists(prefix + ".bin"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
