#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>
#include <utility>

#include "tests/support/troupe_program.h"

// Tests what doctor tells of the memory that UCX reaches, of which UCX is asked
// (support/other_ucx_memory.cpp).

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ucx_memory_test)

BOOST_AUTO_TEST_CASE(doctor_tells_whether_ucx_could_carry_gpu_memory) {
  setenv("LD_PRELOAD", std::getenv("TROUPE_OTHER_UCX_MEMORY"), 1);
  for (const auto& [memory, words] :
       {std::pair<std::string, std::string>{"host", "cannot carry GPU memory: edges to GPUs"},
        {"cuda", "could carry GPU memory, yet edges to GPUs"}}) {
    setenv("TROUPE_TEST_UCX_MEMORY", memory.c_str(), 1);
    const Finished doctor = troupe({"doctor"});
    BOOST_TEST(doctor.out.find(words + " of other hosts are staged") != std::string::npos,
               doctor.out);
  }
  unsetenv("TROUPE_TEST_UCX_MEMORY");
  unsetenv("LD_PRELOAD");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
