#include "launch/commands/doctor.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(doctor_test)

namespace {

std::string text_of(const tensor::DeviceReport& report) {
  std::string text;
  for (const launch::Checkup& checkup : launch::examine_gpus(report)) {
    BOOST_TEST((checkup.result == launch::Checkup::Result::ok));
    text += launch::to_text(checkup);
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_machine_without_a_gpu_is_told_of_and_is_no_failure) {
  const std::string text = text_of({.fault = "no NVIDIA driver on this machine"});
  BOOST_TEST(text == "ok    gpu             none can be used: no NVIDIA driver on this machine\n");
}

BOOST_AUTO_TEST_CASE(gpus_driver_and_libraries_are_told) {
  const tensor::DeviceInfo gpu{.name = "NVIDIA H200",
                               .uuid = "GPU-7",
                               .major = 9,
                               .minor = 0,
                               .multiprocessors = 132,
                               .memory_bytes = std::size_t{140} << 30,
                               .free_bytes = std::size_t{139} << 30,
                               .context_bytes = std::size_t{420} << 20,
                               .peers = {1},
                               .shares_memory = true};
  const std::string text =
      text_of({.driver = "580.65, for CUDA 13.0",
               .libraries = {{.name = "libcudnn.so.9", .version = "9.19.0", .path = "/lib/cudnn"}},
               .devices = {gpu, {.name = "NVIDIA L4"}}});
  for (const char* word :
       {"gpu driver      580.65, for CUDA 13.0", "gpu 0", "NVIDIA H200 (GPU-7)",
        "compute capability 9.0", "132 multiprocessors",
        "140.0 GiB, 139.0 GiB of it free, a process's context takes 420.0 MiB, peer",
        "peer access to 1, edges may be peer", "gpu 1", "no peer access, edges are staged",
        "ranks take 0, 1 by turns", "libcudnn.so.9 9.19.0 in /lib/cudnn"})
    BOOST_TEST(text.find(word) != std::string::npos, "no '" << word << "' in\n" << text);
  BOOST_TEST(text.find("none can be used") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
