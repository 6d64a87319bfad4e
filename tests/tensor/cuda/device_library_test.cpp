#include "tensor/libraries/device_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "tensor/errors/error.h"
#include "tensor/libraries/library_search.h"
#include "tests/support/temp_dir.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(device_library_test)

namespace {

namespace fs = std::filesystem;
using Folders = LibrarySearch::Folders;

bool machine_has_driver() {
  return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
}

BOOST_AUTO_TEST_CASE(folders_are_searched_in_order) {
  const LibrarySearch search("/tree/build/release/troupe", "/mine");
  BOOST_TEST((search.own_folders() ==
              Folders{"/mine", "/tree/build/release", "/tree/build", "/tree/build/lib"}));
  BOOST_TEST(
      (search.chosen_folders() == Folders{"/mine", "/mine/nvidia/cu13/lib",
                                          "/mine/nvidia/cudnn/lib", "/mine/nvidia/nccl/lib"}));
  const Folders wheels = search.wheel_folders({"/usr/lib/python3"});
  BOOST_TEST_REQUIRE(wheels.size() == 9u);
  BOOST_TEST(wheels[0] == "/usr/lib/python3/nvidia/cu13/lib");
  BOOST_TEST(wheels[2] == "/usr/lib/python3/nvidia/nccl/lib");
  BOOST_TEST(wheels[3] == "/tree/build/cuda/nvidia/cu13/lib");

  const LibrarySearch none("/tree/bin/troupe", "");
  BOOST_TEST((none.own_folders() == Folders{"/tree/bin", "/tree", "/tree/lib"}));
  BOOST_TEST(none.chosen_folders().empty());
}

BOOST_AUTO_TEST_CASE(a_test_program_finds_the_library_beside_the_program) {
  const LibrarySearch search("/tree/build/release/tests/tensor.ops_test", "");
  const Folders own = search.own_folders(), wheels = search.wheel_folders({});
  BOOST_TEST((std::find(own.begin(), own.end(), "/tree/build/release") != own.end()));
  BOOST_TEST((std::find(wheels.begin(), wheels.end(), "/tree/build/cuda/nvidia/cudnn/lib") !=
              wheels.end()));
}

BOOST_AUTO_TEST_CASE(a_missing_library_is_named_with_where_it_was_looked_for) {
  const LibrarySearch search("/tree/build/release/troupe", "/mine");
  const OpenLibrary cuda = open_cuda_library(search, "libtroupe_absent.so.7");
  BOOST_TEST(!cuda.handle);
  for (const char* part :
       {"libtroupe_absent.so.7", "is not on this machine", "/mine, /mine/nvidia/*/lib",
        "the loader's own path", "/usr/local/cuda/lib64", "/tree/build/cuda/nvidia/*/lib"})
    BOOST_TEST(cuda.fault.find(part) != std::string::npos, cuda.fault << " lacks " << part);
  BOOST_TEST(cuda.symbol("anything") == nullptr);
  const OpenLibrary own = open_own_library(search, "libtroupe_absent.so");
  BOOST_TEST(!own.handle);
  BOOST_TEST(own.fault.find("/tree/build/release") != std::string::npos, own.fault);
}

BOOST_AUTO_TEST_CASE(a_library_that_cannot_be_opened_is_told_from_a_missing_one) {
  const test::TempDir folder;
  folder.write("libtroupe_broken.so", "not a library");
  const LibrarySearch search("/tree/build/release/troupe", folder.path());
  const OpenLibrary library = open_own_library(search, "libtroupe_broken.so");
  BOOST_TEST(!library.handle);
  BOOST_TEST(library.fault.find("cannot be opened") != std::string::npos, library.fault);
  BOOST_TEST(
      library.fault.find((folder.path() / "libtroupe_broken.so").string()) != std::string::npos,
      library.fault);
}

BOOST_AUTO_TEST_CASE(a_library_is_opened_by_the_loader_with_its_path) {
  const LibrarySearch search("/tree/build/release/troupe", "");
  const OpenLibrary library = open_cuda_library(search, "libc.so.6");
  BOOST_TEST_REQUIRE(library.handle);
  BOOST_TEST(library.path.is_absolute());
  BOOST_TEST(library.path.filename() == "libc.so.6");
  BOOST_TEST(library.symbol("getpid"));
  BOOST_TEST(library.fault.empty());
}

// Nothing else of such a library may be called: its classes may have other members.
BOOST_AUTO_TEST_CASE(a_library_of_another_build_is_refused) {
  const OpenLibrary own = open_own_library(LibrarySearch("/tree/troupe", TROUPE_OTHER_BUILD_FOLDER),
                                           "libtroupe_cuda.so");
  BOOST_TEST_REQUIRE(own.handle, own.fault);
  const std::string fault = fault_of_interface(own);
  for (const std::string& part :
       {own.path.string(), std::string("another build"), std::string("0123456789abcdef"),
        std::string(interface_hash()), std::string("build both from one tree")})
    BOOST_TEST(fault.find(part) != std::string::npos, fault << " lacks " << part);
  const OpenLibrary older = open_cuda_library(LibrarySearch("/tree/troupe", ""), "libc.so.6");
  BOOST_TEST(fault_of_interface(older).find("its interface is none") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_machine_without_a_driver_says_so) {
  if (machine_has_driver()) {
    BOOST_TEST_MESSAGE("skipped: this machine has a driver");
    return;
  }
  BOOST_CHECK_EXCEPTION(make_device({.kind = DeviceKind::cuda}), Error, [](const Error& error) {
    return error.kind() == ErrorKind::unavailable &&
           std::string(error.what()).find("no NVIDIA driver") != std::string::npos;
  });
  const DeviceReport report = report_cuda_devices();
  BOOST_TEST(report.fault.find("no NVIDIA driver") != std::string::npos, report.fault);
  BOOST_TEST(report.driver == "");
  BOOST_TEST(report.devices.empty());
  for (const LibraryVersion& library : report.libraries) {  // as many as this machine has
    BOOST_TEST(!library.version.empty(), library.name);
    BOOST_TEST(fs::path(library.path).is_absolute(), library.path);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
