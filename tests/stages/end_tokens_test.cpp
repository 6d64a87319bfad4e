#include "stages/files/checkpoint/end_tokens.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(end_tokens_test)

using namespace troupe;
using namespace troupe::test;

namespace {

using Ids = std::vector<std::int32_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(end_tokens_are_a_number_or_a_list_of_either_file) {
  const TempDir dir;
  BOOST_TEST(stages::end_tokens(dir.path()).empty());
  dir.write("config.json", R"({"eos_token_id": 7})");
  BOOST_TEST((stages::end_tokens(dir.path()) == Ids{7}));
  dir.write("generation_config.json", R"({"eos_token_id": null})");
  BOOST_TEST((stages::end_tokens(dir.path()) == Ids{7}));
  dir.write("generation_config.json", R"({"eos_token_id": [128001, 0]})");
  BOOST_TEST((stages::end_tokens(dir.path()) == Ids{128001, 0}));
}

BOOST_AUTO_TEST_CASE(what_is_no_token_is_refused_with_its_file) {
  const TempDir dir;
  for (const char* value : {"\"</s>\"", "-1", "1.5", "[2, null]", "4294967296", "{}", "true"}) {
    dir.write("config.json", std::string(R"({"eos_token_id": )") + value + "}");
    expect_error(ErrorKind::data, {"config.json", "eos_token_id"},
                 [&] { stages::end_tokens(dir.path()); });
  }
}

BOOST_AUTO_TEST_SUITE_END()
