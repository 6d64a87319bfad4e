#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "launch/manifest/keys/key.h"
#include "tests/support/temp_dir.h"

// launch/manifest/README.md holds the table of keys as the program knows them.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(readme_test)

namespace {

std::string limits_of(const launch::Key& key) {
  if (key.rule) return " Must be " + launch::range_text(*key.rule) + ".";
  if (key.member.choices.empty()) return "";
  std::string choices;
  for (const auto choice : key.member.choices)
    choices += fmt::format("{}`{}`", choices.empty() ? "" : ", ", choice);
  return " One of " + choices + ".";
}

constexpr const char* kHead = "\n| key | default | unit | meaning |\n|---|---|---|---|\n";

std::string row_of(const launch::Key& key, const char* no_default) {
  return fmt::format("| {} | {} | {} | {}.{} |\n", key.name,
                     key.fallback.empty() ? no_default : fmt::format("`{}`", key.fallback),
                     key.unit, key.meaning, limits_of(key));
}

std::string reference_table() {
  std::string out;
  std::string_view table;
  for (const launch::Key& key : launch::manifest_keys()) {
    if (key.table != table) out += fmt::format("\n**[{}]**\n{}", key.table, kHead);
    table = key.table;
    out += row_of(key, "derived");
  }
  return out;
}

/// The keys of a list of tables.
std::string rows_table(std::span<const launch::Key> keys) {
  std::string out = fmt::format("\n**[[{}]]**\n{}", keys.front().table, kHead);
  for (const launch::Key& key : keys) out += row_of(key, "must be given");
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_reference_in_the_readme_is_the_table_of_the_program) {
  const auto readme =
      std::filesystem::path(__FILE__).parent_path() / "../../../launch/manifest/README.md";
  for (const std::string& table :
       {reference_table(), rows_table(launch::row_keys<launch::Source>()),
        rows_table(launch::row_keys<launch::EvalSet>()),
        rows_table(launch::row_keys<stages::ParameterGroup>()),
        rows_table(launch::row_keys<launch::Settings::Stage>())})
    BOOST_TEST(content_of(readme).find(table) != std::string::npos,
               "launch/manifest/README.md does not hold this text:\n"
                   << table);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
