# Settings that all targets share (warnings, sanitizers), and one function per kind of target.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)  # clones share the cache; without the other options a precompiled header would keep files out of it
  set(troupe_ccache ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${troupe_ccache})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()

# Headers that are slow to read and included by most sources; folders add their own. Files still include what they
# use: lint.check_headers compiles each header alone, and the preset tsan tensor, schedules and tests without these.
set(troupe_precompiled <algorithm> <chrono> <filesystem> <fstream> <functional> <map> <memory> <optional> <string> <variant>
                       <vector>)

add_library(troupe_options INTERFACE)
target_compile_options(troupe_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wnon-virtual-dtor -Werror=return-type)
if(NOT BUILD_SHARED_LIBS)  # a program brings what it calls of a folder, and nothing else
  target_compile_options(troupe_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections>)
  target_link_options(troupe_options INTERFACE LINKER:--gc-sections LINKER:-z,pack-relative-relocs)
endif()
target_include_directories(troupe_options INTERFACE ${CMAKE_SOURCE_DIR})
if(TROUPE_SANITIZE)
  target_compile_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE})
endif()
if(TROUPE_SANITIZE_LIBRARIES)
  target_link_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE_LIBRARIES})
endif()

# troupe_library(<folder> [<library>...]): the folder's sources as libtroupe_<folder>. PUBLIC libraries are what its
# headers need; a folder cannot use another that it does not link. The presets with a sanitizer set BUILD_SHARED_LIBS:
# linked into each program of tests, these libraries would take gigabytes there.
function(troupe_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(main|examples/.*|cuda/.*)\\.cpp$")
  if(NOT sources)
    return()
  endif()
  add_library(troupe_${folder} ${sources})
  target_link_libraries(troupe_${folder} PUBLIC troupe_options ${ARGN})
  if(TROUPE_SANITIZE_LIBRARIES)
    target_compile_options(troupe_${folder} PRIVATE -fsanitize=${TROUPE_SANITIZE_LIBRARIES} -fno-sanitize-recover=all)
    if(folder MATCHES "^(actors|launch)$")  # which cast no bytes; AddressSanitizer sees null as well. A quarter of the time
      target_compile_options(troupe_${folder} PRIVATE -fno-sanitize=null,alignment,object-size,pointer-overflow,vptr)
    endif()
  endif()
  target_precompile_headers(troupe_${folder} PRIVATE ${troupe_precompiled})
  # Reading headers once for several sources saves a third of the time. They are few, so that one which was edited is soon
  # compiled again; but nobody edits and rebuilds with a sanitizer. Not for kernels, which Highway compiles once per target,
  # nor for generators, which call their parts alike.
  set(sources_at_once 8)
  if(TROUPE_SANITIZE)
    set(sources_at_once 12)
  endif()
  if(NOT folder MATCHES "^(tensor|schedules)$")
    set_target_properties(troupe_${folder} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${sources_at_once})
    target_compile_options(troupe_${folder} PRIVATE -Wno-subobject-linkage)  # gcc takes such a source for a header
  endif()
endfunction()

# troupe_relocatable(<program>): the program and every library that it loads look for libraries in lib beside the
# program's folder first, as in a bundle. It is an RPATH, because a RUNPATH would not hold for libraries of libraries.
function(troupe_relocatable program)
  set_property(TARGET ${program} APPEND PROPERTY BUILD_RPATH "$ORIGIN/../lib")
  target_link_options(${program} PRIVATE LINKER:--disable-new-dtags)
endfunction()

# Tests spend their time in the code they test: their own code need not run fast, but must compile fast.
add_library(troupe_test_options INTERFACE)
target_compile_definitions(troupe_test_options INTERFACE BOOST_TEST_DYN_LINK)
if(TROUPE_SANITIZE)
  target_compile_options(troupe_test_options INTERFACE -O0)  # with lines, which reports of a sanitizer name
else()
  target_compile_options(troupe_test_options INTERFACE -O0 -g0)
endif()
target_link_libraries(troupe_test_options INTERFACE troupe_options Boost::unit_test_framework)

# troupe_test_sources(<target>): the target's sources are compiled as tests are: with the headers that all tests share, and
# several at once. Each stands in a suite, and so in a namespace, of its own.
function(troupe_test_sources target)
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # gcc takes such a source for a header
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  target_precompile_headers(${target} REUSE_FROM troupe_test_headers)
endfunction()

# troupe_test_objects(<name> <file>...): tests that several programs link.
function(troupe_test_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PRIVATE troupe_test_options)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)  # as code that is linked into a program
  troupe_test_sources(${name})
endfunction()

# troupe_test_program(<name> [<library>...]): a Boost.Test program without tests.
function(troupe_test_program name)
  add_executable(${name} $<TARGET_OBJECTS:troupe_test_main>)
  target_link_libraries(${name} PRIVATE troupe_test_options ${ARGN})
  troupe_test_sources(${name})
endfunction()

# troupe_test_command(<variable> <test> [<test cases>...]): the command that runs the test, or some cases of its suite.
function(troupe_test_command variable test)
  get_property(program GLOBAL PROPERTY troupe_program_of_${test})
  set(cases ${ARGN})
  if(NOT cases AND NOT program STREQUAL test)  # a program of its own has no other tests
    string(REGEX REPLACE ".*[.]" "" cases ${test})
  endif()
  list(TRANSFORM cases PREPEND --run_test=)
  set(${variable} ${program} ${cases} --log_level=test_suite --catch_system_errors=no PARENT_SCOPE)
endfunction()

# troupe_test(<test> <program> <label> <timeout seconds>): CTest runs the program's suite <name> as the test
# <folder>.<name>.
function(troupe_test test program label timeout)
  set_property(GLOBAL PROPERTY troupe_program_of_${test} ${program})
  troupe_test_command(command ${test})
  # In the folder of the build, to which a cache of compilations makes the names of sources relative.
  add_test(NAME ${test} COMMAND ${command} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set(environment "TROUPE_BINARY=$<TARGET_FILE:troupe>" UCX_HANDLE_ERRORS=none)
  if(label MATCHES unit)
    # Threads that poll at their barriers hold up those of the tests beside them: half a minute for what takes 4 s.
    list(APPEND environment OMP_WAIT_POLICY=passive)
  endif()
  if(TROUPE_SANITIZE MATCHES "address")
    # A worker that gets a signal must die of it under the sanitizer, too, because its launcher must see it.
    list(APPEND environment "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0"
         ASAN_OPTIONS=handle_segv=0 UBSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/ubsan.supp)
  elseif(TROUPE_SANITIZE STREQUAL "thread")
    # UCX's memory hooks run before ThreadSanitizer knows a thread; libgomp's barriers are unknown to it.
    list(APPEND environment UCX_MEM_EVENTS=n OMP_NUM_THREADS=1
         TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:print_suppressions=0)
  endif()
  set_tests_properties(${test} PROPERTIES LABELS "${label}" TIMEOUT ${timeout} ENVIRONMENT "${environment}")
endfunction()
