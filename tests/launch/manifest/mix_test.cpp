#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

// [[data.mix]]: the sources of a mixture.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(mix_test)

namespace {

/// The small manifest with sources instead of files.
std::string mixed(const std::string& sources) {
  const std::string files = "files = [\"/corpus/text.txt\"]\n";
  std::string text = kSmallManifest;
  text.erase(text.find(files), files.size());
  return text + "\n" + sources;
}

const std::string kTwo = R"(
[[data.mix]]
files = ["/corpus/b*.txt", "/corpus/c.txt"]
weight = 3

[[data.mix]]
name = "code"
files = "/corpus/code.jsonl"
weight = 0.5
)";

void refused(const std::string& text, const std::vector<std::string>& words,
             const std::vector<std::string>& overrides = {}) {
  expect_error(ErrorKind::manifest, words, [&] { checked(text, overrides); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(sources_have_files_weights_and_names) {
  const launch::Mix mix = checked(mixed(kTwo))->data.sources;
  const launch::Mix expected{
      {.name = "/corpus/b*.txt", .files = {"/corpus/b*.txt", "/corpus/c.txt"}, .weight = 3},
      {.name = "code", .files = {"/corpus/code.jsonl"}, .weight = 0.5}};
  BOOST_TEST((mix == expected));
}

BOOST_AUTO_TEST_CASE(an_override_sets_all_sources) {
  const auto m = checked(
      mixed(kTwo), {R"(data.mix=[{files = ["/x.txt"], weight = 1}, {files = "/y", weight = 2}])"});
  BOOST_REQUIRE(m->data.sources.size() == 2u);
  BOOST_TEST(m->data.sources[1].name == "/y");
  BOOST_TEST(m->data.sources[1].weight == 2.0);
  BOOST_TEST(checked(mixed(kTwo), {"data.mix=[]", "data.files=/a.txt"})->data.sources.empty());
}

BOOST_AUTO_TEST_CASE(the_resolved_manifest_has_the_sources) {
  auto m = checked(mixed(kTwo));
  launch::Mix mix = m->data.sources;
  mix[0].tokens = "/cache/a \"quoted\".tokens";
  mix[1].tokens = "/cache/b.tokens";
  mix[1].digest = "00ff";
  m.resolve(m->data.sources, mix);
  const auto again = launch::Manifest::parse(m.to_toml(), "again.toml", {});
  BOOST_TEST((again->data.sources == mix));
  const auto sources = launch::parse_resolved(m.to_toml()).data.sources;
  BOOST_REQUIRE(sources.size() == 2u);
  BOOST_TEST(sources[0].tokens == mix[0].tokens);
  BOOST_TEST(sources[0].weight == 3.0);
  BOOST_TEST(sources[1].name == "code");
}

BOOST_AUTO_TEST_CASE(what_is_no_mixture_is_refused_with_its_place) {
  refused(mixed("[[data.mix]]\nfiles = \"/a\"\nweight = 0\n"),
          {"m.toml:22:10:", "data.mix.weight = 0", "above 0"});
  refused(mixed("[[data.mix]]\nfiles = \"/a\"\nweight = -1.5\n"),
          {"m.toml:22:10:", "data.mix.weight = -1.5", "above 0"});
  refused(mixed("[[data.mix]]\nfiles = \"/a\"\nweight = inf\n"), {"weight = inf", "finite"});
  refused(mixed("[[data.mix]]\nfiles = \"/a\"\nweight = \"much\"\n"),
          {"data.mix.weight", "a number", "not a text"});
  refused(mixed("[[data.mix]]\nfiles = \"/a\"\n"), {"m.toml:20:", "[[data.mix]] has no weight"});
  refused(mixed("[[data.mix]]\nweight = 1\n"), {"[[data.mix]] has no files"});
  refused(mixed("[[data.mix]]\nfiles = []\nweight = 1\n"), {"data.mix has no files"});
  refused(mixed("[[data.mix]]\nfiles = [\"\"]\nweight = 1\n"), {"data.mix", "empty name"});
  refused(mixed("[[data.mix]]\nfiles = \"/a\"\nwieght = 1\n"),
          {"m.toml:22:", "'wieght'", "did you mean 'weight'"});
  refused(mixed("[data.mix]\nfiles = \"/a\"\nweight = 1\n"), {"a list of tables", "[[data.mix]]"});
  refused(mixed(""), {"--set data.mix=[1, 2]:", "a list of tables"}, {"data.mix=[1, 2]"});
  refused(mixed(""), {"--set data.mix=[{weight = 1}]:", "has no files"},
          {"data.mix=[{weight = 1}]"});
  refused(mixed(""), {"data.files must name the text", "[[data.mix]]"});
  refused(mixed(kTwo) + kTwo, {"named '/corpus/b*.txt'", "a name each"});
  refused(kSmallManifest + kTwo, {"data.files and data.mix are both given"});
  refused(mixed("[[data.mix]]\nfiles = \"/\\u0000\"\nweight = 1\n"), {"data.mix", "zero byte"});
}

BOOST_AUTO_TEST_CASE(a_run_has_a_limit_of_sources) {
  std::string sources;
  for (int i = 0; i < 257; ++i)
    sources += "[[data.mix]]\nfiles = \"/" + std::to_string(i) + "\"\nweight = 1\n";
  refused(mixed(sources), {"257 sources", "at most 256"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
