#include "tensor/values/shape.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

#include "tensor/errors/error.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(shape_test)

namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 32;

auto says(const std::string& text) {
  return [text](const Error& error) {
    return error.kind() == ErrorKind::data &&
           std::string(error.what()).find(text) != std::string::npos;
  };
}

BOOST_AUTO_TEST_CASE(counts_its_elements) {
  BOOST_TEST(Shape().num_elements() == 1);
  BOOST_TEST(Shape().rank() == 0);
  BOOST_TEST(Shape({4, 256, 512}).num_elements() == 4 * 256 * 512);
  BOOST_TEST(Shape({4, 0, 512}).num_elements() == 0);
  BOOST_TEST(Shape({4, 256})[1] == 256);
}

BOOST_AUTO_TEST_CASE(compares_and_prints) {
  BOOST_TEST((Shape{2, 3} == Shape{2, 3}));
  BOOST_TEST(!(Shape{2, 3} == Shape{3, 2}));
  BOOST_TEST(!(Shape{6} == Shape{2, 3}));
  BOOST_TEST(to_string(Shape{4, 256, 512}) == "[4, 256, 512]");
  BOOST_TEST(to_string(Shape{}) == "[]");
}

BOOST_AUTO_TEST_CASE(refuses_what_a_peer_or_a_file_may_claim) {
  BOOST_CHECK_EXCEPTION((Shape{1, 2, 3, 4, 5}), Error, says("at most 4"));
  BOOST_CHECK_EXCEPTION((Shape{3, -2}), Error, says("negative dim -2"));
  BOOST_CHECK_EXCEPTION((Shape{kHuge, kHuge}), Error, says("63 bits"));
  const std::vector<std::int64_t> largest{std::numeric_limits<std::int64_t>::max()};
  BOOST_TEST(Shape(largest).num_elements() == largest[0]);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
