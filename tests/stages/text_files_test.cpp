#include "stages/corpus/text/text_files.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "stages/corpus/text/file_kind.h"
#include "stages/corpus/text/json_line.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(text_files_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;

namespace {

/// The pieces of a file, which are those of its text in memory.
std::vector<std::string> pieces_of(const std::string& path, const Cuts& cuts = Cuts::anywhere) {
  std::vector<std::string> pieces, from_memory;
  for_each_piece(path, cuts, [&](const Piece& piece) {
    BOOST_TEST((piece.place == Place::start) == pieces.empty());
    pieces.emplace_back(piece.text);
  });
  const std::string text = test::content_of(path);
  for_each_piece_of(text, cuts, [&](const Piece& p) { from_memory.emplace_back(p.text); });
  BOOST_TEST(pieces == from_memory, boost::test_tools::per_element());
  return pieces;
}

}  // namespace

BOOST_AUTO_TEST_CASE(matches_of_a_glob_are_sorted_by_bytes_and_patterns_keep_their_order) {
  const test::TempDir dir;
  for (const char* name : {"b.txt", "a.txt", "B.txt", "\xc3\xa4.txt", "z.md"}) dir.write(name, "x");
  const auto at = [&](const std::string& name) { return (dir / name).string(); };
  const std::vector<std::string> files = expand_files({at("z.md"), at("*.txt")});
  const std::vector<std::string> expected = {at("z.md"), at("B.txt"), at("a.txt"), at("b.txt"),
                                             at("\xc3\xa4.txt")};
  BOOST_TEST(files == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_pattern_without_a_match_is_named) {
  const test::TempDir dir;
  dir.write("a.txt", "x");
  expect_error(ErrorKind::data, {"nowhere.txt", "no such file"}, [&] {
    expand_files({(dir / "a.txt").string(), (dir / "nowhere.txt").string()});
  });
  expect_error(ErrorKind::data, {"no such file"}, [] { expand_files({std::string(5000, 'x')}); });
  expect_error(ErrorKind::data, {"*.md"}, [&] { expand_files({(dir / "*.md").string()}); });
  std::filesystem::create_symlink("loop", dir / "loop");
  expect_error(ErrorKind::data, {"loop/a.txt", "cannot be read: Too many levels of symbolic links"},
               [&] { expand_files({(dir / "loop/a.txt").string()}); });
}

BOOST_AUTO_TEST_CASE(a_name_with_brackets_and_a_dataset_prefix_stand_for_themselves) {
  const test::TempDir dir;
  const std::string odd = dir.write("notes[1].txt", "x");
  dir.write("set.idx", "");
  const std::vector<std::string> files = expand_files({odd, (dir / "set").string()});
  BOOST_TEST(files.size() == 2u);
  BOOST_TEST(files[0] == odd);
}

BOOST_AUTO_TEST_CASE(pieces_end_after_the_last_newline_of_a_window) {
  const test::TempDir dir;
  std::string text(kPieceBytes - 10, 'a');
  text += "\nbbb\n" + std::string(20, 'c') + "\n";
  const auto pieces = pieces_of(dir.write("text", text));
  BOOST_REQUIRE(pieces.size() == 2u);
  BOOST_TEST(pieces[0].size() == kPieceBytes - 10 + 5);
  BOOST_TEST(pieces[1] == std::string(20, 'c') + "\n");
  BOOST_TEST(pieces_of(dir.write("empty", "")).empty());
}

BOOST_AUTO_TEST_CASE(a_cut_at_lines_comes_before_a_character_that_is_no_white_space) {
  const test::TempDir dir;
  const std::string head(kPieceBytes - 20, 'a');
  Cuts cuts = Cuts::at_lines;
  const auto first_piece = [&](const std::string& lines) {
    const auto pieces =
        pieces_of(dir.write("text", head + lines + std::string(kPieceBytes, 'z')), cuts);
    return pieces[0].substr(head.size());
  };
  BOOST_TEST(first_piece("\nb\n c\n\n d") == "\n");
  BOOST_TEST(first_piece("\nb\n\tc\r\nd\n") == "\nb\n\tc\r\nd\n");
  BOOST_TEST(first_piece("\nb\n\xe2\x82\xac") == "\nb\n");  // a euro sign
  BOOST_TEST(first_piece("\nb\n\xe3\x80\x80x") == "\n");    // a wide space
  BOOST_TEST(first_piece("\nb\n\xffx") == "\nb\n");         // no UTF-8
  cuts = Cuts::at_lone_newlines;
  BOOST_TEST(first_piece("\nb\r\nc\n\nd \ne\xe3\x80\x80\nf") == "\n");
  BOOST_TEST(first_piece("\nb\xe2\x82\xac\nc") == "\nb\xe2\x82\xac\n");
}

BOOST_AUTO_TEST_CASE(a_piece_is_as_long_as_its_next_cut_is_far) {
  const test::TempDir dir;
  const std::string line(5 * kPieceBytes, 'a'), text = line + "\n" + line + "\n b\nc";
  const auto lines = pieces_of(dir.write("text", text), Cuts::at_lines);
  BOOST_REQUIRE(lines.size() == 2u);
  BOOST_TEST(lines[0] == line + "\n");
  BOOST_TEST((pieces_of(dir.write("text", text), Cuts::nowhere) == std::vector{text}));
  BOOST_TEST(pieces_of(dir.write("text", ""), Cuts::nowhere).empty());
}

BOOST_AUTO_TEST_CASE(a_window_without_a_newline_is_not_cut_inside_a_character) {
  const test::TempDir dir;
  const std::string text = std::string(kPieceBytes - 2, 'a') + "\xe2\x82\xac" + "b";  // a euro sign
  const auto pieces = pieces_of(dir.write("text", text));
  BOOST_REQUIRE(pieces.size() == 2u);
  BOOST_TEST(pieces[0].size() == kPieceBytes - 2);
  BOOST_TEST(pieces[1] ==
             "\xe2\x82\xac"
             "b");
}

BOOST_AUTO_TEST_CASE(pieces_join_to_the_file_whatever_it_holds) {
  std::mt19937_64 random(test::fresh_seed());
  const test::TempDir dir;
  for (int round = 0; round < 5; ++round) {
    std::string text(kPieceBytes + test::below(random, 2 * kPieceBytes), '\0');
    const std::size_t newline_every = 1 + test::below(random, 3 * kPieceBytes);
    for (char& c : text) c = static_cast<char>(0x80 | random());  // bytes that end no line
    for (std::size_t i = newline_every; i < text.size(); i += newline_every) text[i] = '\n';
    for (const Cuts::Rule cuts :
         {Cuts::anywhere, Cuts::at_lines, Cuts::at_lone_newlines, Cuts::nowhere}) {
      std::string joined;
      for (const std::string& piece : pieces_of(dir.write("text", text), cuts)) {
        BOOST_REQUIRE(!piece.empty());
        BOOST_REQUIRE((piece.size() <= kPieceBytes || cuts != Cuts::anywhere));
        joined += piece;
      }
      BOOST_REQUIRE(joined == text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_file_is_what_its_name_and_its_first_bytes_say) {
  const test::TempDir dir;
  const auto kind = [&](const std::string& name, const std::string& content) {
    return file_kind(dir.write(name, content));
  };
  const std::string lines = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
  for (const char* name :
       {"a.jsonl", "a.JSONL", "a.json", "a.ndjson", "a.jsonlines", "a.jl", "a.txt", "no ending"})
    BOOST_TEST((kind(name, lines) == FileKind::json_lines), name);
  BOOST_TEST((kind("bom.txt", "\xef\xbb\xbf" + lines) == FileKind::json_lines));
  const std::string rest = " 3, \"text\": \"b\"}\n" + lines;
  for (const std::string member :
       {"\"content\":", "\"x\": NaN, \"y\":", "\"z\": \"\\ud800\", \"y\":"})
    BOOST_TEST((kind("a.txt", "{" + member + rest) == FileKind::json_lines), member);
  BOOST_TEST((kind("long.txt", "{\"text\": \"" + std::string(100'000, 'x') + "\"}\n" + lines) ==
              FileKind::json_lines));
  for (const char* text :
       {"{\"text\" is how it begins", "[1] is a footnote", "[1]", "[\"Hello,\" she said]", "{}", "",
        "PAR for the course", "BZh is text", "Yes, text\nof a poem", "text,\n"})
    BOOST_TEST((kind("a.txt", text) == FileKind::text), text);
  const auto refused = [&](const std::string& name, const std::string& content,
                           const std::string& words) {
    const std::string path = dir.write(name, content);
    expect_error(ErrorKind::data, {name, words}, [&] { file_kind(path); });
  };
  for (const char* name : {"a.csv", "a.TSV", "a.Gz", "a.parquet", "a.bin", "a.tokens"})
    refused(name, "x", "holds no text");
  refused("gzip.txt", std::string("\x1f\x8b\x08\0", 4), "packed by gzip, but it is cut off");
  refused("zstd", "\x28\xb5\x2f\xfd", "packed by zstd, but it is cut off");
  refused("xz",
          std::string("\xfd"
                      "7zXZ\0",
                      6),
          "packed by xz, but it is cut off");
  refused("a.parquet", "PAR1", "pandas.read_parquet(");
  refused("tar.txt", std::string(257, 'x') + "ustar" + std::string(9, '0'), "packed by tar");
  refused("marked.txt",
          std::string("\xff\xfe"
                      "a\0b\0",
                      6),
          "UTF-16");
  std::string unmarked;
  for (const char c : std::string("a text of some letters\n")) (unmarked += c) += '\0';
  refused("unmarked.txt", unmarked, "its byte 2 is zero");
  refused("binary", "\x89PNG\r\n\x1a\n" + std::string(3, '\0'), "its byte 9 is zero");
  const std::string document = "{\"text\": \"a\"}", long_text(100'000, 'x');
  for (const char* name : {"list.json", "list.jsonl", "list.txt"})
    BOOST_TEST((kind(name, " [\n" + document + "]\n") == FileKind::json_list), name);
  const auto doubt = [&](const std::string& name, const std::string& content) {
    return look_at_file(dir.write(name, content)).doubt;
  };
  BOOST_TEST(doubt("list.txt", "[" + document + "]").find("list of JSON") != std::string::npos);
  BOOST_TEST(doubt("a.txt", "[{\"a\": b").find("read as text") != std::string::npos);
  BOOST_TEST(doubt("list.json", "[" + document + "]") == "");
  BOOST_TEST(doubt("a.txt", "[1] is a footnote") == "");
  for (const char* name : {"list.json", "list.jsonl", "list.txt"}) {
    refused(name, "[\"a text\", \"" + long_text + "\"]", "a list of JSON, but not of objects");
    refused(name, "{\n  \"text\": \"a\"\n}\n", "not with an object in a line of its own; jq -c .");
    refused(name, "{\n  \"text\": \"" + long_text + "\"}", "not with an object in a line");
  }
  for (const char* header : {"id,text", "\"id\";\"Text\"\r", "content\tlabel", "prompt,response"})
    refused("table.txt", header + std::string("\n1,2\n"), "a table");
}

BOOST_AUTO_TEST_CASE(a_line_of_json_is_read_as_python_reads_it) {
  const auto text = [](const char* line) {
    return parse_json_line(line)["text"].get<std::string>();
  };
  BOOST_TEST(text(R"({"text": "a \ud83d b"})") == "a \xef\xbf\xbd b");
  BOOST_TEST(text(R"({"text": "\ude00\ud83d\ud83d\ude00"})") ==
             "\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80");
  BOOST_TEST(text(R"({"text": "\\ud83d NaN \" 1e999", "x": [NaN, -Infinity, 1e999, 2]})") ==
             "\\ud83d NaN \" 1e999");
  BOOST_TEST(parse_json_line(R"({"a": [Infinity, -1e999, -2.5]})").dump() == R"({"a":[0,0,-2.5]})");
  const auto refused = [](const std::string& line, const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { parse_json_line(line); });
  };
  refused(R"({"text": "cut of)", {"no JSON: column 17", "missing closing quote"});
  refused(R"({"text": "a"},)", {"column 14", "expected end of input"});
  refused(R"({'text': 'a'})", {"column 2", "expected string literal"});
  refused("{\"text\": \"tab\there\"}", {"column 14", "control character"});
  refused(R"({"x": NaN, "y": -Infinity, "z": "\ud800", "text": "cut)",
          {"column 55", "missing closing quote"});
  try {
    parse_json_line("{\"text\": \"" + std::string(100000, 'x'));
  } catch (const Error& error) {
    BOOST_TEST(std::string(error.what()).size() < 200u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
