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

# troupe_cuda_test(<file>): the test with the devices that it needs, or nothing where CUDA's parts for them are missing.
function(troupe_cuda_test file)
  get_filename_component(name ${file} NAME_WE)
  if(name STREQUAL "cuda_linear_test")
    if(TARGET troupe_cuda)
      troupe_test(${file} "unit;cuda" 120 troupe_cublaslt_device)
    endif()
  elseif(name STREQUAL "cuda_device_test")
    if(TARGET troupe_cuda)
      troupe_test(${file} "unit;cuda" 120 troupe_host_cudart_device)
    endif()
  elseif(name MATCHES "^(cudnn_plan|gpu_faults)_test$")  # over the stub driver
    if(kernels AND TARGET stub_driver AND TARGET troupe_cuda AND
       (TARGET troupe_cudnn_plan OR NOT name STREQUAL "cudnn_plan_test"))
      troupe_test(${file} "unit;cuda" 300 troupe_cuda_plans $<TARGET_NAME_IF_EXISTS:troupe_cudnn_plan>)
      target_compile_definitions(tensor.${name} PRIVATE
                                 TROUPE_STUB_DRIVER_FOLDER="${CMAKE_CURRENT_BINARY_DIR}/stub_driver/driver")
      add_dependencies(tensor.${name} stub_driver troupe_cuda)
    endif()
  elseif(file MATCHES "^tensor/")
    troupe_test(${file} "unit;cuda" 120 troupe_cuda_plans)
  elseif(name STREQUAL "compiled_kernels_test")
    if(kernels)
      pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)  # libzstd-dev
      troupe_test(${file} "unit;cuda" 120 PkgConfig::zstd)
      add_dependencies(cuda.${name} troupe_cuda_kernels)
      set_property(TEST cuda.${name} APPEND PROPERTY
                   ENVIRONMENT "TROUPE_KERNEL_OBJECTS=$<JOIN:$<TARGET_OBJECTS:troupe_cuda_kernels>,:>")
    endif()
  elseif(TROUPE_CUDA_HEADERS)
    troupe_test(${file} "unit;cuda" 300 troupe_stages troupe_emulated_device)
  endif()
endfunction()

# troupe_emulated_run_test(<file>): an end-to-end test whose runs open the emulated GPU.
function(troupe_emulated_run_test file)
  if(NOT TROUPE_CUDA_HEADERS OR TROUPE_SANITIZE)  # takes many minutes with a sanitizer
    return()
  endif()
  get_filename_component(name ${file} NAME_WE)
  troupe_test(${file} "e2e;cuda" 300 troupe_program)
  add_dependencies(e2e.${name} troupe_emulated_cuda_path)
  set_property(TEST e2e.${name} APPEND PROPERTY ENVIRONMENT "TROUPE_CUDA_PATH=${CMAKE_BINARY_DIR}/tests/emulated")
endfunction()

# The tests of the ops run on the device that is linked with them: the CPU in tensor.<name>, an emulated GPU in
# cuda.<name>, a GPU in gpu.ops_test.
set(op_tests attention attention_dropout attention_mask bias cached_attention document_attention dropout embedding
             gelu layer_norm loss ops optimizer_ops positions row_widths vocab_ops)
if(TROUPE_CUDA_HEADERS)
  foreach(name ${op_tests})
    troupe_test(tensor/${name}_test.cpp "unit;cuda" 600 troupe_emulated_device PREFIX cuda)
  endforeach()
endif()
if(TARGET troupe_cuda)  # the tests of linear layers also run on the GPU's, with cuBLASLt's products on the host
  set(sources cuda_error cuda_linear cuda_product product_descriptors)
  list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/tensor/cuda/\\1.cpp")
  add_library(troupe_cublaslt_device STATIC support/host_cublaslt.cpp tensor/cublaslt_test_device.cpp ${sources})
  target_link_libraries(troupe_cublaslt_device PUBLIC troupe_emulated_device troupe_cuda_plans ${CUBLASLT_LIBRARY}
                                                      ${CUDART_LIBRARY} rt ${CMAKE_DL_LIBS})
  troupe_test(tensor/linear_test.cpp "unit;cuda" 120 troupe_cublaslt_device PREFIX cuda)
  # The device itself over a runtime of the host, without cuDNN.
  get_target_property(sources troupe_cuda SOURCES)
  list(FILTER sources EXCLUDE REGEX "_ops\\.cpp|kernel_(cached_)?attention|library_entry|TARGET_OBJECTS|/cudnn_plan|cmake_pch")
  add_library(troupe_host_cudart_device OBJECT support/host_cudart.cpp ${sources}
              ${CMAKE_SOURCE_DIR}/tensor/cuda/no_cudnn_plan.cpp)
  target_link_libraries(troupe_host_cudart_device PUBLIC troupe_emulated_cuda troupe_cuda_plans ${CUBLASLT_LIBRARY}
                                                         ${CMAKE_DL_LIBS})
endif()
if(kernels)
  add_test(NAME cuda.spills_are_refused
           COMMAND ${CMAKE_CUDA_COMPILER} -std=c++20 -gencode=arch=compute_90a,code=sm_90a ${TROUPE_REFUSE_SPILLS}
                   -I${CMAKE_SOURCE_DIR} -cubin -o /dev/null ${CMAKE_CURRENT_SOURCE_DIR}/cuda/spilling_kernel.cu)
  set_tests_properties(cuda.spills_are_refused PROPERTIES LABELS "unit;cuda" TIMEOUT 120
                       PASS_REGULAR_EXPRESSION "[Rr]egisters are spilled")
endif()
