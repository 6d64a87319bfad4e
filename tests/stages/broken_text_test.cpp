#include <boost/test/unit_test.hpp>

#include "stages/corpus/text/corpus_files.h"
#include "stages/corpus/text/file_kind.h"
#include "stages/corpus/tokens/token_cache.h"
#include "tests/support/expect_error.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/temp_dir.h"

// Bytes of a text that are no UTF-8.

BOOST_AUTO_TEST_SUITE(broken_text_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

struct Fixture {
  test::TempDir dir;
  std::string model = dir.write("tok.model", test::sentencepiece_model());

  /// What is told while a file is tokenized.
  std::vector<std::string> warnings(const std::string& file, const std::string& tokenizer) {
    std::vector<std::string> told;
    prepare_tokens({.files = {file}, .tokenizer = tokenizer}, dir / "cache",
                   {.warn = [&](const std::string& text) { told.push_back(text); }});
    return told;
  }
};

std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

const std::string kLatin = "caf\xe9 the cat\n", kUtf8 = "caf\xc3\xa9 the cat\n";

}  // namespace

BOOST_AUTO_TEST_CASE(places_are_counted_across_pieces) {
  BrokenText text;
  text.add("abc");
  BOOST_TEST(text.sentence("a.txt") == "");
  text.add("d\xe9");
  BOOST_TEST(text.sentence("a.txt") == "a.txt: byte 5 is no UTF-8 and counts as U+FFFD");
  text.add("\xc3\xa9\xff\xfe");
  BOOST_TEST(text.sentence("a.txt") ==
             "a.txt: 3 places are no UTF-8 and count as U+FFFD each, the first at byte 5");
}

BOOST_FIXTURE_TEST_CASE(a_text_with_some_broken_bytes_is_taken_and_they_are_told_once, Fixture) {
  // Longer than a piece, and than what is looked at of a file.
  const std::string text = times(7000, kUtf8) + kLatin + times(100, kUtf8) + kLatin;
  const std::string file = dir.write("web.txt", text);
  const std::vector<std::string> told{
      file + ": 2 places are no UTF-8 and count as U+FFFD each, the first at byte " +
      std::to_string(7000 * kUtf8.size() + 4)};
  BOOST_TEST(warnings(file, model) == told, boost::test_tools::per_element());
  BOOST_TEST(warnings(file, model).empty());  // the cache has its tokens
  BOOST_TEST(warnings(file, "bytes").empty());
}

/// They are replaced before any tokenizer sees them.
BOOST_FIXTURE_TEST_CASE(of_json_lines_they_are_told_whatever_the_tokenizer, Fixture) {
  const std::string file = dir.write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"caf\xe9\"}\n");
  const std::vector<std::string> told{file + ": byte 28 is no UTF-8 and counts as U+FFFD"};
  BOOST_TEST(warnings(file, "bytes") == told, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_text_of_another_encoding_is_refused_unless_its_bytes_are_read, Fixture) {
  const std::string latin = dir.write("latin.txt", times(1000, kLatin));
  const auto refused = [&](const std::string& file) {
    test::expect_error(ErrorKind::data,
                       {file, "no text in UTF-8", "the first at byte ", "iconv -f"},
                       [&] { file_kind(file, model); });
  };
  refused(latin);
  refused(dir.write("long.txt", times(10'000, kLatin)));
  refused(dir.write("lines.jsonl", times(100, "{\"\xe9\": \"\xe8\xea\", \"text\": \"a\"}\n")));
  BOOST_TEST((file_kind(latin) == FileKind::text));
  const auto taken = [&](const std::string& text) {
    const std::string file = dir.write("taken.txt", text);
    BOOST_TEST((file_kind(file, model) == FileKind::text));
  };
  taken(kLatin);  // too few to tell
  taken(times(5000, "the cat sat\n") + times(20, kLatin));
  taken(times(500, kUtf8) + times(400, kLatin));        // of several sources
  taken(std::string((1 << 16) - 1, 'a') + "\xc3\xa9");  // cut within a character
}

BOOST_AUTO_TEST_SUITE_END()
