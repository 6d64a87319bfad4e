#include "actors/files/merged_file.h"

#include <boost/test/unit_test.hpp>
#include <span>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(merged_file_test)

using actors::MergedFile;

namespace {

void add(MergedFile& file, std::uint64_t offset, const std::string& bytes) {
  file.add(offset, std::as_bytes(std::span(bytes)));
}

const std::string kNone(1, '\0');

}  // namespace

BOOST_AUTO_TEST_CASE(parts_of_several_writers_are_the_whole_in_any_order_and_again) {
  const TempDir dir;
  for (int time = 0; time < 2; ++time) {
    MergedFile file(dir / "file", 6);
    add(file, 4, "f" + kNone);
    add(file, 0, "he" + kNone + kNone);
    add(file, 0, "he" + kNone + "d");
    file.sync_and_close();
  }
  BOOST_TEST((content_of(dir / "file") == "he" + kNone + "df" + kNone));
}

BOOST_AUTO_TEST_CASE(parts_of_another_size_are_refused) {
  const TempDir dir;
  dir.write("file", "12345");
  expect_error(ErrorKind::internal, {"5 bytes here, 6"}, [&] { MergedFile(dir / "file", 6); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
