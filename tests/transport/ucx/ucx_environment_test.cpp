#include "transport/ucx/ucx_environment.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>

#include "tests/transport/ucx/chosen_transports.h"

namespace troupe::transport {

BOOST_AUTO_TEST_SUITE(ucx_environment_test)

BOOST_AUTO_TEST_CASE(memory_may_be_shared_unless_the_transports_leave_no_way) {
  for (const char* transports : {"", "all", "shm,self", "sm", "mm,tcp", "posix,self", "tcp,sysv",
                                 "^tcp", "^posix", "^sysv,tcp"})
    BOOST_TEST(UcxEnvironment{.transports = transports}.may_share_memory(), transports);
  for (const char* transports : {"tcp,self", "self", "^shm", "^sm,tcp", "^posix,sysv", "gsmx"})
    BOOST_TEST(!UcxEnvironment{.transports = transports}.may_share_memory(), transports);
}

BOOST_AUTO_TEST_CASE(dev_shm_is_used_if_the_user_asks_for_it) {
  for (const char* transports : {"all", "shm,self", "tcp,posix", "^tcp", "^sysv"})
    BOOST_TEST(UcxEnvironment{.transports = transports}.may_use_dev_shm(), transports);
  for (const char* transports : {"", "tcp,self", "tcp,sysv", "^posix", "^shm", "^mm,tcp"})
    BOOST_TEST(!UcxEnvironment{.transports = transports}.may_use_dev_shm(), transports);
}

BOOST_AUTO_TEST_CASE(what_the_user_has_set_is_found) {
  const test::ChosenTransports chosen("tcp,self");
  BOOST_TEST(prepare_ucx().transports == "tcp,self");
}

BOOST_AUTO_TEST_CASE(nccl_uses_the_same_interface_unless_the_user_has_chosen_one) {
  unsetenv("NCCL_SOCKET_IFNAME");
  prepare_ucx();
  BOOST_TEST(std::string(getenv("NCCL_SOCKET_IFNAME")) == "=lo");
  setenv("NCCL_SOCKET_IFNAME", "eth7", 1);
  prepare_ucx();
  BOOST_TEST(std::string(getenv("NCCL_SOCKET_IFNAME")) == "eth7");
  unsetenv("NCCL_SOCKET_IFNAME");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::transport
