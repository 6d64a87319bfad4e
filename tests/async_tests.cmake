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

# troupe_async_test(<test> <labels> <timeout> [<variable>...] [CASES <test cases>...]): runs the test once more, with the
# variables in its environment. Not under AddressSanitizer, which takes long and finds nothing there that it does not find
# on the CPU.
function(troupe_async_test test label timeout)
  if(TROUPE_SANITIZE MATCHES "address")
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 3 ASYNC "" "" CASES)
  get_test_property(${test} ENVIRONMENT environment)
  troupe_test_command(command ${test} ${ASYNC_CASES})
  add_test(NAME async.${test} COMMAND ${command})
  set_tests_properties(async.${test} PROPERTIES LABELS "${label}" TIMEOUT ${timeout} ENVIRONMENT
                       "${environment};TROUPE_TEST_DEVICE=async;TROUPE_CUDA_PATH=${async_folder};${ASYNC_UNPARSED_ARGUMENTS}")
endfunction()

# Of the tests of stages those that compute or hold a device's memory: not stage_streams, which runs on both devices, nor
# stage_memory, whose device only counts.
foreach(name completions generator initialize model_gradient layer_dropout packed_copies stage_parameters
             stage_readiness stage_recompute stage_shards stage_split stage_update value_head checkpoint checkpoint_damage
             checkpoint_dirs checkpoint_memory checkpoint_shards data_parallel hf_copies twins weight_comparison)
  troupe_async_test(stages.${name}_test "unit;cuda" 600)
endforeach()
foreach(name ucx_group ucx_group_contract)
  troupe_async_test(transport.${name}_test "unit;cuda;thread" 300)
endforeach()
# Not allocation, because this device allocates for every op.
foreach(name divided_replicas model_parts plan_runner replicas shard_pairs)
  troupe_async_test(actors.${name}_test "unit;cuda;thread" 900)
endforeach()
foreach(name tap rank_executor first_shard_reads)
  troupe_async_test(actors.${name}_test "unit;cuda" 300)
endforeach()
add_dependencies(actors_tests troupe_async_library troupe_empty_library)  # workers of some open the device's library

# Of the end-to-end tests those whose runs compute: what moves state, divides it or overlaps is tried here, the rest by
# --soak.
foreach(name collectives data_parallel gpt2 kills layouts recompute recovery_memory replica_difference resume sharding
             traces two_copies)
  troupe_async_test(e2e.${name}_test "e2e;cuda" 600)
endforeach()
foreach(name auto_layout auto_schedule commands dropout ending examples first_shard full_disk hf_tokenizer hugging_face
             initializer mixture monitors newcomers rank_names responses screen)
  troupe_async_test(e2e.${name}_test soak 600)
endforeach()
# Some of the faults and meshes; soak_tests.cmake has every mesh of shards. Not the thousands of steps that fill a pipe.
troupe_async_test(e2e.faults_test "e2e;cuda" 600 TROUPE_FAULTS=5)
troupe_async_test(e2e.matrix_test "e2e;cuda" 600 TROUPE_POINTS=1)
troupe_async_test(e2e.shards_test "e2e;cuda" 600 CASES shards_test !shards_test/shards_train_as_one_process_does)
troupe_async_test(e2e.widths_test "e2e;cuda" 300 CASES widths_test/losses_of_workers_change_no_bit)
troupe_async_test(e2e.output_test "e2e;cuda" 300 CASES output_test !output_test/a_console_that_nobody_reads_*)
set_property(TEST e2e.async_device_test APPEND PROPERTY ENVIRONMENT TROUPE_CUDA_PATH=${async_folder})
