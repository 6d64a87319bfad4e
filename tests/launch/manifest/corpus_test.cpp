#include "launch/manifest/inputs/corpus.h"

#include <stdlib.h>

#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/resolve.h"
#include "stages/corpus/chat/chat_date.h"
#include "stages/corpus/token_data.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(corpus_test)

namespace {

/// A manifest in a folder of its own, with a cache of its own.
struct Place {
  Place() { setenv("XDG_CACHE_HOME", (dir / "cache").c_str(), 1); }
  launch::Manifest manifest(const std::string& files, const std::string& more = "") const {
    const auto path =
        dir.write("m.toml", "[batch]\nseq_len = 8\n[data]\nfiles = " + files + "\n" + more);
    auto m = launch::Manifest::read(path, {});
    launch::resolve(m, kMachine);
    return m;
  }
  void refused(ErrorKind kind, const std::vector<std::string>& words, const std::string& files,
               const std::string& more = "") const {
    auto m = manifest(files, more);
    expect_error(kind, words, [&] { launch::check_corpus(m); });
  }
  TempDir dir;
};

}  // namespace

BOOST_AUTO_TEST_CASE(globs_become_files_sorted_bytewise_in_the_order_given) {
  const Place place;
  for (const char* name : {"b.txt", "B.txt", "a.txt", "z.md", "[x].txt"})
    place.dir.write(name, "some text to read");
  auto m = place.manifest(R"(["z.md", "[x].txt", "?.txt"])");
  launch::check_corpus(m);
  std::vector<std::string> expected;
  for (const char* name : {"z.md", "[x].txt", "B.txt", "a.txt", "b.txt"})
    expected.push_back(place.dir / name);
  BOOST_TEST(m->text.files == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(text_that_cannot_be_used_is_named_with_its_place) {
  const Place place;
  place.dir.write("empty.txt", "");
  place.dir.write("short.txt", "12345678");
  place.dir.write("good.txt", "123456789");
  place.refused(ErrorKind::data, {"m.toml:4:9:", "nowhere.txt"}, "\"nowhere.txt\"");
  place.refused(ErrorKind::data, {"nothing-*.txt"}, "\"nothing-*.txt\"");
  place.refused(ErrorKind::data, {"empty.txt", "empty"}, "[\"good.txt\", \"empty.txt\"]");
  place.refused(ErrorKind::data, {"8 tokens", "seq_len + 1 = 9", "seq_len = 7"}, "\"short.txt\"");
  place.refused(ErrorKind::data, {place.dir.path().string()}, "\".\"");
  place.refused(ErrorKind::data, {"m.toml:6:9:", "gone.txt"}, "\"good.txt\"",
                "[eval]\nfiles = \"gone.txt\"\n");
  auto m = place.manifest("\"good.txt\"");
  launch::check_corpus(m);
}

BOOST_AUTO_TEST_CASE(a_tokenizer_must_exist_and_fit_the_model) {
  const Place place;
  place.dir.write("good.txt", "abcdefghij");
  place.dir.write("no.model", "no protobuf at all");
  const auto model = place.dir.write("spm.model", sentencepiece_model());
  const auto tokens = stages::Tokenizer::open(model)->vocab_size();
  const std::string text = "\"good.txt\"";
  place.refused(ErrorKind::data, {"m.toml:5:13:", "nowhere.model", "bytes"}, text,
                "tokenizer = \"nowhere.model\"\n");
  place.refused(ErrorKind::data, {"m.toml:5:13:", "no.model"}, text, "tokenizer = \"no.model\"\n");
  place.refused(ErrorKind::manifest, {"m.toml:6:14:", "vocab_size = 255", "256"}, text,
                "[model]\nvocab_size = 255\n");
  place.refused(ErrorKind::manifest, {"at least " + std::to_string(tokens)}, text,
                "tokenizer = \"spm.model\"\n[model]\nvocab_size = " + std::to_string(tokens - 1));
  place.refused(ErrorKind::data, {"m.toml:5:13:", "bos = \"<b>\"", "no such token"}, text,
                "tokenizer = \"spm.model\"\nbos = \"<b>\"\n[model]\nvocab_size = 400\n");
  auto fits = place.manifest(
      text, "tokenizer = \"spm.model\"\n[model]\nvocab_size = " + std::to_string(tokens));
  launch::check_corpus(fits);
}

/// Before any text is tokenized, which may take long.
BOOST_AUTO_TEST_CASE(a_text_in_latin_1_is_refused_unless_its_bytes_are_read) {
  const Place place;
  place.dir.write("spm.model", sentencepiece_model());
  std::string text;
  for (int i = 0; i < 50; ++i) text += "caf\xe9 ";
  place.dir.write("latin.txt", text);
  place.refused(ErrorKind::data, {"m.toml:4:9:", "latin.txt", "no text in UTF-8"}, "\"latin.txt\"",
                "tokenizer = \"spm.model\"\n");
  auto m = place.manifest("\"latin.txt\"");
  launch::check_corpus(m);
}

BOOST_AUTO_TEST_CASE(tokens_are_made_once_and_named_in_the_manifest) {
  const Place place;
  place.dir.write("a.txt", "0123456789");
  place.dir.write("b.txt", "abcdefghij");
  auto m = place.manifest("\"*.txt\"", "[eval]\nfiles = \"b.txt\"\ninterval = 5\n");
  launch::check_corpus(m);
  launch::prepare_corpus(m, {});
  BOOST_TEST(stages::TokenFile::open(m->text.tokens)->num_tokens() == 20);
  BOOST_TEST(stages::TokenFile::open(m->eval_text.tokens)->num_tokens() == 10);
  BOOST_TEST(m->eval_text.samples == (10 - 1) / m->batch.seq_len);
  BOOST_TEST(m->text.tokens.starts_with((place.dir / "cache/troupe").string()));
  auto again = place.manifest("\"*.txt\"", "[eval]\nfiles = \"b.txt\"\n");
  launch::check_corpus(again);
  launch::prepare_corpus(again, {});
  BOOST_TEST(again->text.tokens == m->text.tokens);
  BOOST_TEST(again->eval_text.tokens == "");  // never evaluated
}

BOOST_AUTO_TEST_CASE(json_lines_are_their_texts) {
  const Place place;
  place.dir.write("a.jsonl", "{\"text\": \"01234\", \"url\": \"x\"}\n\n{\"text\": \"56789\"}\n");
  place.dir.write("a.txt", "0123456789");
  std::string digests[2], tokens[2];
  for (int i = 0; i < 2; ++i) {
    auto m = place.manifest(i ? "\"a.txt\"" : "\"a.jsonl\"");
    launch::check_corpus(m);
    launch::prepare_corpus(m, {});
    BOOST_TEST(stages::TokenFile::open(m->text.tokens)->num_tokens() == 10);
    digests[i] = m->data.digest;
    tokens[i] = m->text.tokens;
  }
  BOOST_TEST(digests[0] == digests[1]);
  BOOST_TEST(tokens[0] != tokens[1]);
}

BOOST_AUTO_TEST_CASE(short_json_lines_are_read_before_anything_starts) {
  const Place place;
  const std::string bad = "{\"text\": \"0123456789\"}\n{\"txt\": \"x\"}\n";
  place.dir.write("bad.jsonl", bad);
  place.refused(ErrorKind::data, {"m.toml:4:9:", "bad.jsonl:2:", "\"text\""}, "\"bad.jsonl\"");
  place.dir.write("short.jsonl", "{\"text\": \"0123\"}\n{\"text\": \"4567\"}\n");
  place.refused(ErrorKind::data, {"m.toml:4:9:", "data.files holds 8 tokens", "seq_len = 7"},
                "\"short.jsonl\"");
  place.dir.write("good.jsonl", "{\"text\": \"012345678\"}\n");
  place.refused(ErrorKind::data, {"m.toml:6:9:", "eval.files holds 8 tokens"}, "\"good.jsonl\"",
                "[eval]\nfiles = \"short.jsonl\"\n");
  place.refused(ErrorKind::data, {"data.mix 'x' holds 8 tokens"}, "[]",
                "mix = [{name = \"x\", files = \"short.jsonl\", weight = 1}]\n");
  // One that is not short may hold little text: that is seen when it is tokenized.
  place.dir.write("long.jsonl",
                  "{\"text\": \"0123\", \"url\": \"" + std::string(70'000, 'x') + "\"}\n");
  auto m = place.manifest("\"long.jsonl\"");
  launch::check_corpus(m);
  expect_error(ErrorKind::data, {"4 tokens"}, [&] { launch::prepare_corpus(m, {}); });
}

BOOST_AUTO_TEST_CASE(short_texts_are_counted_in_tokens_and_documents) {
  const Place place;
  const auto model = place.dir.write("spm.model", sentencepiece_model());
  place.dir.write("words.txt", "the cat sat");  // the, space, cat, " sat"
  const std::string tokenizer = "tokenizer = \"spm.model\"\n[model]\nvocab_size = 400\n";
  place.refused(ErrorKind::data, {"data.files holds 4 tokens"}, "\"words.txt\"", tokenizer);
  place.dir.write("one.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\"}\n");
  auto m = place.manifest("\"one.jsonl\"");
  m->batch.documents = stages::Documents::packed;
  expect_error(ErrorKind::data, {"1 token in 2 documents", "'joined' joins them"},
               [&] { launch::check_corpus(m); });
}

BOOST_AUTO_TEST_CASE(what_is_no_text_is_refused_by_its_name) {
  const Place place;
  for (const char* name : {"a.jsonl.gz", "a.txt.zst", "a.parquet", "a.tokens"}) {
    place.dir.write(name, "0123456789");
    place.refused(ErrorKind::data, {"m.toml:4:9:", name, "holds no text"},
                  '"' + std::string(name) + '"');
  }
  place.refused(ErrorKind::data, {"x.idx"}, "\"x.idx\"");
}

BOOST_AUTO_TEST_CASE(an_id_beyond_the_vocabulary_is_found_before_anything_starts) {
  const Place place;
  const auto text = place.dir.write("a.txt", "0123456789");
  stages::write_indexed_dataset({text}, *stages::Tokenizer::open("bytes"), place.dir / "set");
  for (const char* eval : {"", "[eval]\nfiles = \"set.bin\"\n"}) {
    place.refused(ErrorKind::data, {"m.toml:4:9:", "set.bin", "token 5", "id 53", "vocab_size 53"},
                  "\"set.bin\"", std::string("[model]\nvocab_size = 53\n") + eval);
  }
  auto m = place.manifest("\"set.bin\"", "[model]\nvocab_size = 58\n");
  launch::check_corpus(m);
  place.refused(ErrorKind::data, {"m.toml:5:13:", "none.model"}, "\"set.bin\"",
                "tokenizer = \"none.model\"\n");
}

BOOST_AUTO_TEST_CASE(a_dataset_stands_alone) {
  const Place place;
  const auto text = place.dir.write("a.txt", "0123456789");
  stages::write_indexed_dataset({text}, *stages::Tokenizer::open("bytes"), place.dir / "set");
  for (const char* name : {"\"set.bin\"", "\"set\""}) {
    auto m = place.manifest(name);
    launch::check_corpus(m);
    launch::prepare_corpus(m, {});
    BOOST_TEST(stages::TokenFile::open(m->text.tokens)->num_tokens() == 10);
  }
  auto idx = place.manifest("\"set.idx\"");
  launch::check_corpus(idx);
  launch::prepare_corpus(idx, {});
  BOOST_TEST(stages::TokenFile::open(idx->text.tokens)->num_tokens() == 10);
  place.refused(ErrorKind::manifest, {".bin", "alone"}, "[\"set.bin\", \"a.txt\"]");
  place.dir.write("set.idx", "torn");
  place.refused(ErrorKind::data, {"set.idx"}, "\"set.bin\"");
}

BOOST_AUTO_TEST_CASE(a_loss_on_responses_takes_lines_that_have_some) {
  const Place place;
  const std::string responses = "loss_on = \"response\"\n[model]\nvocab_size = 256\n";
  place.dir.write("a.txt", "0123456789");
  stages::write_indexed_dataset({place.dir / "a.txt"}, *stages::Tokenizer::open("bytes"),
                                place.dir / "set");
  for (const char* file : {"a.txt", "set.bin"})
    place.refused(ErrorKind::data, {"m.toml:4:9:", file, "\"prompt\""},
                  '"' + std::string(file) + '"', responses);
  place.dir.write("prompts.jsonl", "{\"prompt\": \"abc\", \"response\": \"\"}\n");
  auto m = place.manifest("\"prompts.jsonl\"", responses);
  m->batch.documents = stages::Documents::packed;
  expect_error(ErrorKind::data, {"3 tokens in 1 document", "behind its prompt"},
               [&] { launch::check_corpus(m); });
}

BOOST_AUTO_TEST_CASE(how_files_were_read_is_told) {
  const Place place;
  place.dir.write("a.jsonl",
                  "{\"q\": \"0123\", \"a\": \"456789\"}\nno JSON\n{\"q\": \"x\", \"a\": \"y\"}\n");
  const std::string fields = "fields = {prompt = \"q\", response = \"a\"}\n";
  place.refused(ErrorKind::data, {"m.toml:4:9:", "a.jsonl:2: no JSON"}, "\"a.jsonl\"", fields);
  auto m = place.manifest("\"a.jsonl\"", fields + "on_bad_line = \"skip\"\n");
  launch::check_corpus(m);
  const launch::Corpus corpus = launch::prepare_corpus(m, {});
  BOOST_REQUIRE(corpus.sources.size() == 1u);
  BOOST_TEST(corpus.sources[0].tokens == 12);
  BOOST_TEST(
      corpus.sources[0].notes.starts_with("2 records are read as prompt and response\n1 line "
                                          "is skipped: " +
                                          (place.dir / "a.jsonl").string() + ":2: "));
}

BOOST_AUTO_TEST_CASE(the_day_of_a_template_is_kept) {
  const Place place;
  place.dir.write("good.txt", "0123456789");
  place.dir.write("tokenizer.json",
                  "{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}");
  const auto date = [&](const std::string& source, const std::string& more) {
    place.dir.write("chat_template.jinja", source);
    return place.manifest("\"good.txt\"", "tokenizer = \"tokenizer.json\"\n" + more)
        ->data.rules.date;
  };
  BOOST_TEST(date("{{ strftime_now('%d') }}", "") == stages::today());
  BOOST_TEST(date("{{ strftime_now('%d') }}", "date = \"2024-07-26\"\n") == "2024-07-26");
  BOOST_TEST(date("no day", "") == "");
}

BOOST_AUTO_TEST_CASE(each_source_of_a_mixture_is_tokenized_by_itself) {
  const Place place;
  place.dir.write("a.txt", "0123456789");
  place.dir.write("b1.txt", "abcdefghij");
  place.dir.write("b2.txt", "abcdefghij");
  const auto mixed = [&](const std::string& weights) {
    auto m =
        place.manifest("[]", "mix = [{files = \"a.txt\", weight = " + weights.substr(0, 1) +
                                 "}, {files = \"b*.txt\", weight = " + weights.substr(1) + "}]\n");
    launch::check_corpus(m);
    launch::prepare_corpus(m, {});
    return m;
  };
  const auto m = mixed("12");
  BOOST_REQUIRE(m->data.sources.size() == 2u);
  BOOST_TEST(m->data.sources[1].files.size() == 2u);
  BOOST_TEST(stages::TokenFile::open(m->data.sources[0].tokens)->num_tokens() == 10);
  BOOST_TEST(stages::TokenFile::open(m->data.sources[1].tokens)->num_tokens() == 20);
  BOOST_TEST(m->text.tokens == "");
  BOOST_TEST(m->data.digest == mixed("12")->data.digest);
  BOOST_TEST(m->data.digest != mixed("21")->data.digest);
}

BOOST_AUTO_TEST_CASE(a_source_that_cannot_be_used_is_named) {
  const Place place;
  place.dir.write("good.txt", "0123456789");
  place.dir.write("short.txt", "12345678");
  const auto mixed = [](const char* bad) {
    return std::string("mix = [{files = \"good.txt\", weight = 1}, {name = \"x\", files = \"") +
           bad + "\", weight = 1}]\n";
  };
  place.refused(ErrorKind::data, {"m.toml:5:7:", "data.mix 'x' holds 8 tokens", "seq_len + 1 = 9"},
                "[]", mixed("short.txt"));
  place.refused(ErrorKind::data, {"m.toml:5:7:", "nowhere.txt"}, "[]", mixed("nowhere.txt"));
  place.refused(ErrorKind::data, {"a.gz", "no text"}, "[]",
                (place.dir.write("a.gz", "x"), mixed("a.gz")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
