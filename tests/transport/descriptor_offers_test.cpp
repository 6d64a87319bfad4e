#include "transport/memory/descriptor_offers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <optional>

#include "tests/support/memory_of_descriptor.h"

namespace troupe::transport {

BOOST_AUTO_TEST_SUITE(descriptor_offers_test)

namespace {

/// What another process finds in the memory that is offered under this name; -1: nothing.
int byte_found_by_another(const SegmentName& name) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto descriptor = fetch_descriptor(name);
    const void* const data = descriptor ? test::map_shared_bytes(descriptor->get(), 1) : nullptr;
    ::_exit(data ? *static_cast<const unsigned char*>(data) : 255);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const int found = WEXITSTATUS(status);
  return found == 255 ? -1 : found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(another_process_gets_what_is_offered_until_it_is_withdrawn) {
  const FileDescriptor mine(test::make_shared_bytes(8)), other(test::make_shared_bytes(8));
  *static_cast<unsigned char*>(test::map_shared_bytes(mine.get(), 1)) = 42;
  DescriptorOffers offers;
  const SegmentName name = offers.offer(mine.get()), next = offers.offer(other.get());
  BOOST_TEST_REQUIRE(name.id != SegmentName::kNone);
  BOOST_TEST(!(name == next));
  BOOST_TEST(byte_found_by_another(name) == 42);
  BOOST_TEST(byte_found_by_another(next) == 0);
  BOOST_TEST(fetch_descriptor(name).has_value());
  offers.withdraw(name);
  BOOST_TEST(byte_found_by_another(name) == -1);
  BOOST_TEST(byte_found_by_another(next) == 0);
}

BOOST_AUTO_TEST_CASE(names_that_nobody_has_given_find_nothing) {
  SegmentName name;
  BOOST_TEST(!fetch_descriptor(name).has_value());
  {
    const FileDescriptor mine(test::make_shared_bytes(8));
    DescriptorOffers offers;
    name = offers.offer(mine.get());
    BOOST_TEST(!fetch_descriptor({.id = name.id, .nonce = name.nonce + 1}).has_value());
    BOOST_TEST(!fetch_descriptor({.id = name.id ^ 1, .nonce = name.nonce}).has_value());
  }
  BOOST_TEST(!fetch_descriptor(name).has_value());  // its process has ended
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::transport
