#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>

#include "tensor/errors/error.h"
#include "tensor/libraries/device_library.h"
#include "tests/support/temp_dir.h"

// What libtroupe_cuda.so says where no GPU can be used, through the program's own way to open it. A
// stub in the driver's place answers as such a machine's driver would.

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(gpu_faults_test)

namespace {

struct Answer {
  std::string fault;   // of the report
  std::string thrown;  // by make_device, with its exit code in front
  std::string libraries;
};

/// The answers of a process whose driver serves CUDA `version` (as 13000) and whose cuInit returns
/// `init`.
Answer answer_of(int init, int version) {
  const test::TempDir folder;
  const pid_t child = fork();
  if (child == 0) {
    setenv("TROUPE_CUDA_PATH", TROUPE_STUB_DRIVER_FOLDER, 1);
    setenv("STUB_DRIVER_INIT", std::to_string(init).c_str(), 1);
    setenv("STUB_DRIVER_VERSION", std::to_string(version).c_str(), 1);
    const DeviceReport report = report_cuda_devices();
    std::ofstream(folder / "fault") << report.fault;
    std::ofstream libraries(folder / "libraries");
    for (const LibraryVersion& library : report.libraries)
      libraries << library.name << " " << library.version << "\n";
    try {
      make_device({.kind = DeviceKind::cuda});
    } catch (const Error& error) {  // thrown within the other library
      std::ofstream(folder / "thrown") << static_cast<int>(error.kind()) << " " << error.what();
    }
    libraries.close();
    _exit(0);
  }
  int status = -1;
  BOOST_TEST(waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
  return {test::content_of(folder / "fault"), test::content_of(folder / "thrown"),
          test::content_of(folder / "libraries")};
}

void check_fault(int init, int version, const std::string& part) {
  const Answer answer = answer_of(init, version);
  BOOST_TEST(answer.fault.find(part) != std::string::npos, answer.fault << " lacks " << part);
  BOOST_TEST(answer.thrown == "69 " + answer.fault);
  BOOST_TEST(answer.libraries.find("libcublasLt.so.13 13.") != std::string::npos, answer.libraries);
}

BOOST_AUTO_TEST_CASE(a_driver_without_a_gpu_is_told) {
  check_fault(100, 13000, "finds no GPU");
}

BOOST_AUTO_TEST_CASE(a_driver_that_is_too_old_is_told_with_versions) {
  check_fault(100, 12040, "serves CUDA 12.4, and 13.0 is needed");
}

BOOST_AUTO_TEST_CASE(a_stub_in_the_drivers_place_is_told) {
  check_fault(34, 13000, "stub");
}

BOOST_AUTO_TEST_CASE(another_fault_has_the_drivers_own_words) {
  check_fault(802, 13000, "system not yet initialized");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
