# All dependencies are Debian packages; the comment beside each names its package.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(PkgConfig REQUIRED)
find_package(dnnl REQUIRED)                                          # libdnnl-dev
find_package(CapnProto REQUIRED)                                     # libcapnp-dev, capnproto
find_package(fmt REQUIRED)                                           # libfmt-dev
find_package(spdlog REQUIRED)                                        # libspdlog-dev
find_package(nlohmann_json REQUIRED)                                 # nlohmann-json3-dev
find_package(tomlplusplus REQUIRED)                                  # libtomlplusplus-dev
find_package(CLI11 REQUIRED)                                         # libcli11-dev
find_package(Boost 1.74 REQUIRED COMPONENTS unit_test_framework)     # libboost-test-dev
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)         # librandom123-dev
find_package(utf8cpp REQUIRED)                                       # libutfcpp-dev
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)         # libxxhash-dev
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)               # libhwy-dev
pkg_check_modules(ucx REQUIRED IMPORTED_TARGET ucx)                  # libucx-dev
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)              # libhwloc-dev
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)  # libsentencepiece-dev
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)         # libpcre2-dev
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)     # libutf8proc-dev
pkg_check_modules(packing REQUIRED IMPORTED_TARGET zlib libzstd liblzma)  # zlib1g-dev, libzstd-dev, liblzma-dev
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-pull)  # prometheus-cpp-dev
find_package(civetweb REQUIRED)                                      # libcivetweb-dev
find_package(CAF REQUIRED)                                           # libcaf-dev
find_package(OpenSSL REQUIRED COMPONENTS SSL Crypto)                   # libssl-dev
