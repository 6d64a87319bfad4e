#include "tensor/parallel/communication_volume.h"

#include <boost/test/unit_test.hpp>

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(communication_volume_test)

namespace {

// GPT-3 with 8 shards.
constexpr CommunicationShape kShape{.hidden = 12288, .seq_len = 2048, .batch = 1, .layers = 96};

BOOST_AUTO_TEST_CASE(estimates_four_ring_all_reduces_a_layer) {
  BOOST_TEST(communication_volume(kShape, 8).count == 33.8e9, boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(one_shard_communicates_nothing) {
  BOOST_TEST(communication_volume(kShape, 1).count == 0);
}

BOOST_AUTO_TEST_CASE(elements_may_be_wider) {
  CommunicationShape wide = kShape;
  wide.bytes_per_element = 4;
  BOOST_TEST(communication_volume(wide, 8).count == 2 * communication_volume(kShape, 8).count);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
