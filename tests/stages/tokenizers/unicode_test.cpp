#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "stages/corpus/tokenizers/text/normal_forms.h"
#include "stages/corpus/tokenizers/text/regex.h"

// Compares every character with what Hugging Face's tokenizers do (make_unicode_tables.py).

BOOST_AUTO_TEST_SUITE(unicode_test)

using namespace troupe::stages;
using nlohmann::json;

namespace {

json golden() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "unicode_golden.json");
  return json::parse(file);
}

/// FNV-1a of 64 bits, as the script has it.
class Digest {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes)
      value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

bool is_surrogate(char32_t c) {
  return c >= 0xd800 && c < 0xe000;
}

/// Which of all characters a pattern matches: their number, and their digest.
std::pair<int, std::string> members(const std::string& pattern) {
  const Regex regex(pattern);
  std::pair<int, std::string> result;
  Digest digest;
  for (char32_t first = 0; first < 0x110000; first += 0x1000) {
    std::string text;
    for (char32_t c = first; c < first + 0x1000; ++c)
      if (!is_surrogate(c)) text += utf8_of(c);
    for (const auto& [begin, end] : regex.matches(text)) {
      const auto c = static_cast<std::uint32_t>(first_char(std::string_view(text).substr(begin)));
      for (int shift = 0; shift < 32; shift += 8) {
        const auto byte = static_cast<char>(c >> shift);
        digest.add({&byte, 1});
      }
      ++result.first;
    }
  }
  result.second = digest.text();
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(sets_have_the_characters_that_they_have_in_the_library) {
  const json sets = golden()["sets"];
  BOOST_TEST(sets.size() > 40u);
  for (const auto& [pattern, expected] : sets.items()) {
    const auto [count, digest] = members(pattern);
    BOOST_TEST(count == expected[0].get<int>(), pattern);
    BOOST_TEST(digest == expected[1].get<std::string>(), pattern);
  }
}

BOOST_AUTO_TEST_CASE(normal_forms_are_those_of_the_library) {
  const std::map<std::string, NormalForm> forms{{"NFC", NormalForm::nfc},
                                                {"NFD", NormalForm::nfd},
                                                {"NFKC", NormalForm::nfkc},
                                                {"NFKD", NormalForm::nfkd}};
  std::vector<std::string> texts;
  int count = 0;
  for (char32_t c = 0; c < 0xe0200; ++c) {
    if (is_surrogate(c) || (c >= 0x3400 && c < 0xa000) || (c >= 0xac00 && c < 0xd7a4) ||
        (c >= 0x20000 && c < 0x2f800))
      continue;
    if (count++ % 512 == 0) texts.emplace_back();
    const std::string same = utf8_of(c);
    texts.back() += same + 'a' + same + "\u0323\u0301" + same + "\u0323b";
  }
  const json expectations = golden()["forms"];
  for (const auto& [name, expected] : expectations.items()) {
    Digest digest;
    for (const std::string& text : texts) digest.add(normal_form(text, forms.at(name)));
    BOOST_TEST(digest.text() == expected.get<std::string>(), name);
  }
}

BOOST_AUTO_TEST_CASE(a_normal_form_is_that_of_its_parts_where_a_part_begins) {
  const std::string before = "e\u0301\u0323 \uac00\u11a8\u0915\u093c", after = "\u0301x";
  for (char32_t c = 0; c < 0x30000; ++c) {
    if (is_surrogate(c) || !begins_normal_form(c)) continue;
    for (const NormalForm form :
         {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc, NormalForm::nfkd})
      BOOST_REQUIRE_MESSAGE(normal_form(before + utf8_of(c) + after, form) ==
                                normal_form(before, form) + normal_form(utf8_of(c) + after, form),
                            static_cast<std::uint32_t>(c));
  }
}

BOOST_AUTO_TEST_CASE(lower_case_is_that_of_each_character) {
  BOOST_TEST(lower_case("AbZ \u0130\u00c9\u03a3\u1e9e\ua7cb\U00010d50 1") ==
             "abz i\u0307\u00e9\u03c3\u00df\u0264\U00010d70 1");
}

BOOST_AUTO_TEST_SUITE_END()
