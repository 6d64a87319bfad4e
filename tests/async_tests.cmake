# Tests that run once more as async.<name>, on a device of support/async_device.h: its ops run later, on threads, and the
# host cannot touch its memory. Launched runs open that device as their libtroupe_cuda.so, beside libraries of NVIDIA's
# names that are empty.
set(async_folder ${CMAKE_CURRENT_BINARY_DIR}/async)
add_library(troupe_async_library SHARED support/async_library.cpp)
target_link_libraries(troupe_async_library PRIVATE troupe_options troupe_tensor)
add_library(troupe_empty_library SHARED support/empty_library.cpp)
set_target_properties(troupe_async_library PROPERTIES OUTPUT_NAME troupe_cuda)
set_target_properties(troupe_async_library troupe_empty_library PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${async_folder})
foreach(name libcuda.so.1 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2)
  add_custom_command(TARGET troupe_empty_library POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink
                             $<TARGET_FILE_NAME:troupe_empty_library> ${async_folder}/${name})
endforeach()
add_dependencies(troupe_program troupe_async_library troupe_empty_library)

# troupe_async_test(<test> <labels> <timeout>): runs the test once more. Not under AddressSanitizer, which takes long and
# finds nothing there that it does not find on the CPU.
function(troupe_async_test test label timeout)
  if(TROUPE_SANITIZE MATCHES "address")
    return()
  endif()
  get_test_property(${test} ENVIRONMENT environment)
  add_test(NAME async.${test} COMMAND ${test} --log_level=test_suite --catch_system_errors=no)
  set_tests_properties(async.${test} PROPERTIES LABELS "${label}" TIMEOUT ${timeout} ENVIRONMENT
                       "${environment};TROUPE_TEST_DEVICE=async;TROUPE_ASYNC_LIBRARY=${async_folder}")
endfunction()

foreach(name initialize model_generator model_gradient layer_dropout stage_parameters stage_recompute stage_shards
             stage_split stage_update value_head checkpoint checkpoint_shards checkpoint_damage)
  troupe_async_test(stages.${name}_test "unit;cuda" 600)
endforeach()
foreach(name ucx_group ucx_exchanges ucx_reductions)
  troupe_async_test(transport.${name}_test "unit;cuda;thread" 300)
endforeach()
foreach(name plan_runner shard_pairs)
  troupe_async_test(actors.${name}_test "unit;cuda;thread" 300)
endforeach()
# The end-to-end tests of what computes. Not those of the command line, and not traces_test: on a device with two streams
# more than the actions of a pair run at the same time.
foreach(name collectives dropout first_shard gpt2 initializer kills layouts newcomers recompute resume two_copies)
  troupe_async_test(e2e.${name}_test "e2e;cuda" 600)
endforeach()
set_property(TEST e2e.async_device_test APPEND PROPERTY ENVIRONMENT TROUPE_ASYNC_LIBRARY=${async_folder})
