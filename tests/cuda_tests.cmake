# What of the CUDA back end is tested without a GPU: its kernels on an emulated grid, its host code over a runtime, a
# driver and products of the host.
if(TROUPE_CUDA_HEADERS)
  add_subdirectory(emulated_grid)
endif()
set(kernels)  # compiled; a sanitized build leaves them out
if(TARGET troupe_cuda_kernels AND NOT TROUPE_SANITIZE)
  set(kernels troupe_cuda_kernels)
endif()
find_file(CUDA_STUB_LIBRARY libcuda.so HINTS ${TROUPE_CUDA_HEADERS}/../lib/stubs ${TROUPE_CUDA_HEADERS}/../lib64/stubs)
if(CUDA_STUB_LIBRARY)
  add_subdirectory(stub_driver)
endif()

# A back end of another build, in a folder of its own.
add_library(troupe_other_build_library SHARED support/other_build_library.cpp)
set(other_build_folder ${CMAKE_CURRENT_BINARY_DIR}/other_build)
set_target_properties(troupe_other_build_library PROPERTIES OUTPUT_NAME troupe_cuda
                                                            LIBRARY_OUTPUT_DIRECTORY ${other_build_folder})

# troupe_one_file_test(<file> <label> <timeout> [<library>...]): a test in a program of its own.
function(troupe_one_file_test file label timeout)
  get_filename_component(name ${file} NAME_WE)
  string(REGEX REPLACE "/.*" "" folder ${file})
  troupe_test_program(${folder}.${name} ${ARGN})
  target_sources(${folder}.${name} PRIVATE ${file})
  troupe_test(${folder}.${name} ${folder}.${name} "${label}" ${timeout})
endfunction()

# troupe_cuda_test(<file>): the test with the devices that it needs, or nothing where CUDA's parts for them are missing.
function(troupe_cuda_test file)
  get_filename_component(name ${file} NAME_WE)
  if(name STREQUAL "cuda_linear_test")
    if(TARGET troupe_cuda)  # and the tests of linear layers run on the GPU's, with cuBLASLt's products on the host
      troupe_test_program(cublaslt_tests troupe_cublaslt_device troupe_linear_test)
      target_sources(cublaslt_tests PRIVATE ${file})
      troupe_test(tensor.${name} cublaslt_tests "unit;cuda" 120)
      troupe_test(cuda.linear_test cublaslt_tests "unit;cuda" 120)
      troupe_test(cuda.grouped_linear_test cublaslt_tests "unit;cuda" 120)
    endif()
  elseif(name MATCHES "^(cuda_device|waiting_kernels)_test$")
    if(TARGET troupe_cuda)
      troupe_one_file_test(${file} "unit;cuda;thread" 120 troupe_host_cudart troupe_host_cudnn troupe_emulated_cuda
                           troupe_cuda_products troupe_cuda_host)
    endif()
  elseif(name STREQUAL "cudnn_document_attention_test")
    if(TARGET troupe_cuda)
      troupe_one_file_test(${file} "unit;cuda" 300 troupe_emulated_device troupe_host_cudnn)
      set(folder ${CMAKE_SOURCE_DIR}/tensor/cuda/attention)
      target_sources(tensor.${name} PRIVATE ${folder}/cudnn_document_attention.cpp ${folder}/cudnn_plans.cpp)
    endif()
  elseif(name STREQUAL "host_cudart_test")
    if(TARGET troupe_cuda)
      troupe_one_file_test(${file} "unit;cuda;thread" 120 troupe_host_cudart)
    endif()
  elseif(name MATCHES "^(cudnn_plan|gpu_faults)_test$")  # over the stub driver
    if(kernels AND TARGET stub_driver AND TARGET troupe_cuda AND
       (TARGET troupe_cudnn_plan OR NOT name STREQUAL "cudnn_plan_test"))
      troupe_one_file_test(${file} "unit;cuda" 300 troupe_cuda_plans $<TARGET_NAME_IF_EXISTS:troupe_cudnn_plan>)
      target_compile_definitions(tensor.${name} PRIVATE
                                 TROUPE_STUB_DRIVER_FOLDER="${CMAKE_CURRENT_BINARY_DIR}/stub_driver/driver")
      add_dependencies(tensor.${name} stub_driver troupe_cuda)
    endif()
  elseif(file MATCHES "^tensor/")
    target_sources(tensor_tests PRIVATE ${file})
    set_property(SOURCE ${file} APPEND PROPERTY COMPILE_DEFINITIONS TROUPE_OTHER_BUILD_FOLDER="${other_build_folder}")
    add_dependencies(tensor_tests troupe_other_build_library)
    troupe_test(tensor.${name} tensor_tests "unit;cuda" 120)
  elseif(name STREQUAL "compiled_kernels_test")
    if(kernels)
      pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)  # libzstd-dev
      troupe_one_file_test(${file} "unit;cuda" 120 PkgConfig::zstd)
      add_dependencies(cuda.${name} troupe_cuda_kernels)
      set_property(TEST cuda.${name} APPEND PROPERTY
                   ENVIRONMENT "TROUPE_KERNEL_OBJECTS=$<JOIN:$<TARGET_OBJECTS:troupe_cuda_kernels>,:>")
    endif()
  elseif(file STREQUAL "cuda/channel_test.cpp")
    if(TARGET troupe_cuda)
      troupe_one_file_test(${file} "unit;cuda;thread" 600 troupe_transport troupe_host_cudart troupe_host_cudnn
                           troupe_emulated_cuda troupe_cuda_products troupe_cuda_host)
    endif()
  elseif(name MATCHES "^nccl_")  # over the fake NCCL
    if(TROUPE_NCCL_HEADERS)
      troupe_one_file_test(${file} "unit;cuda" 600 troupe_emulated_device)
      target_compile_definitions(cuda.${name} PRIVATE TROUPE_FAKE_NCCL_FOLDER="${CMAKE_BINARY_DIR}/tests/emulated")
      add_dependencies(cuda.${name} troupe_fake_nccl)
    endif()
  elseif(name MATCHES "^(emulated_(device|ranks)|device_(groups|edges))_test$")  # their runs open the emulated GPU
    if(TROUPE_CUDA_HEADERS AND NOT TROUPE_SANITIZE AND (TROUPE_NCCL_HEADERS OR NOT name STREQUAL "device_groups_test"))
      troupe_one_file_test(${file} "e2e;cuda" 300 troupe_program)
      add_dependencies(e2e.${name} troupe_emulated_cuda_path)
      set_property(TEST e2e.${name} APPEND PROPERTY ENVIRONMENT "TROUPE_CUDA_PATH=${CMAKE_BINARY_DIR}/tests/emulated")
    endif()
  elseif(TROUPE_CUDA_HEADERS)
    target_sources(cuda_tests PRIVATE ${file})
    troupe_test(cuda.${name} cuda_tests "unit;cuda" 300)
  endif()
endfunction()

if(TROUPE_CUDA_HEADERS)
  troupe_test_program(cuda_tests troupe_stages troupe_emulated_device troupe_op_tests)
  foreach(file ${op_tests})
    get_filename_component(name ${file} NAME_WE)
    troupe_test(cuda.${name} cuda_tests "unit;cuda" 600)
  endforeach()
  # As on the smallest GPU; those whose kernels use more shared memory where there is more, also as on the others.
  foreach(limit 163 227)
    foreach(name attention_test attention_limits_test document_attention_test loss_test embedding_test kernel_attention_test)
      troupe_test(cuda_${limit}.${name} cuda_tests "unit;cuda" 600)
      set_property(TEST cuda_${limit}.${name} APPEND PROPERTY ENVIRONMENT TROUPE_SHARED_LIMIT=${limit})
    endforeach()
  endforeach()
endif()
if(TARGET troupe_cuda)
  add_library(troupe_cublaslt_device STATIC support/host_cublaslt.cpp tensor/cublaslt_test_device.cpp
              $<TARGET_OBJECTS:troupe_cuda_products>)
  target_link_libraries(troupe_cublaslt_device PUBLIC troupe_emulated_device troupe_cuda_plans ${CUBLASLT_LIBRARY}
                                                      ${CUDART_LIBRARY} rt ${CMAKE_DL_LIBS})
  # What the device itself runs over on the host: a runtime, and a cuDNN whose plans for documents alone run.
  add_subdirectory(host_cudart)
  add_library(troupe_host_cudnn OBJECT support/host_cudnn.cpp support/document_plan.cpp)
  target_link_libraries(troupe_host_cudnn PUBLIC troupe_emulated_grid troupe_cuda_plans)
endif()
if(kernels)
  add_test(NAME cuda.spills_are_refused
           COMMAND ${CMAKE_CUDA_COMPILER} -std=c++20 -gencode=arch=compute_80,code=sm_80 ${TROUPE_REFUSE_SPILLS}
                   -I${CMAKE_SOURCE_DIR} -cubin -o /dev/null ${CMAKE_CURRENT_SOURCE_DIR}/cuda/spilling_kernel.cu)
  set_tests_properties(cuda.spills_are_refused PROPERTIES LABELS "unit;cuda" TIMEOUT 120
                       PASS_REGULAR_EXPRESSION "[Rr]egisters are spilled")
endif()
