# Long tests, for ./tests/run --soak: end-to-end and property tests with more of what they try.

# troupe_soak_test(<name> <test> <timeout> <variable>... [CASES <test case>...]): runs a test with the variables in its
# environment.
function(troupe_soak_test name test timeout)
  cmake_parse_arguments(PARSE_ARGV 3 SOAK "" "" CASES)
  troupe_test_command(command ${test} ${SOAK_CASES})
  add_test(NAME soak.${name} COMMAND ${command})
  set_tests_properties(soak.${name} PROPERTIES LABELS soak TIMEOUT ${timeout} ENVIRONMENT
                       "TROUPE_BINARY=$<TARGET_FILE:troupe>;UCX_HANDLE_ERRORS=none;${SOAK_UNPARSED_ARGUMENTS}")
endfunction()

# Ten times as many faults.
troupe_soak_test(faults e2e.faults_test 3600 TROUPE_FAULTS=200 CASES faults_test/no_fault_changes_a_loss)
# A worker lost every 15 seconds for 10 minutes, and as long again undisturbed.
troupe_soak_test(kills e2e.kills_test 3600 TROUPE_KILLS=40 TROUPE_KILL_PERIOD=15)
# Fifty runs over hosts with four faults each, of their hosts.
troupe_soak_test(host_faults hosts.host_faults_test 14400 TROUPE_HOST_FAULTS=200)
set_tests_properties(soak.host_faults PROPERTIES SKIP_RETURN_CODE 77)
# Every kind of mesh with every kind of model and recompute, instead of some.
troupe_soak_test(matrix e2e.matrix_test 7200 TROUPE_POINTS=0)
# Every mesh of the test of shards on the asynchronous device.
troupe_soak_test(async_shards e2e.shards_test 3600 TROUPE_TEST_DEVICE=async TROUPE_CUDA_PATH=${async_folder})
# Every shape of every schedule, instead of some.
troupe_soak_test(schedules schedules.properties_test 3600 TROUPE_SHAPES=1000000 CASES properties_test/every_schedule_is_valid_and_ends)
# The bundle, and the steps of launch/examples/container/Containerfile, in an empty Debian.
if(NOT TROUPE_SANITIZE)
  foreach(version 12:bookworm 13:trixie)
    string(REPLACE ":" ";" version ${version})
    list(POP_FRONT version number)
    add_test(NAME soak.bare_debian_${number}
             COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/support/bare_debian.py ${CMAKE_BINARY_DIR} ${version})
    set_tests_properties(soak.bare_debian_${number} PROPERTIES LABELS soak TIMEOUT 1800 SKIP_RETURN_CODE 77)
  endforeach()
endif()
