# CUDA 13 for the GPU part (tensor/cuda). Without its compiler the part is left out; without its headers the tests that
# run kernels on the host are, too.
include(CheckLanguage)
set(TROUPE_CUDA_WHEELS ${CMAKE_SOURCE_DIR}/build/cuda/nvidia)  # what launch/install_cuda brings
find_program(TROUPE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda ${TROUPE_CUDA_WHEELS}/cu13 PATH_SUFFIXES bin)
if(TROUPE_NVCC AND NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${TROUPE_NVCC})
endif()
if(CMAKE_CUDA_COMPILER)
  # A100, and all others of 8.x; H100 and H200; B200, and others of 10.x; RTX 50 and others of 12.x, with PTX from which
  # the driver makes code for later ones (tensor/cuda/runtime/gpus.cpp).
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 100-real 120)
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_STANDARD 20)
  # A kernel whose registers do not fit is refused: it would be slow without saying so.
  set(TROUPE_REFUSE_SPILLS -Xptxas=--warn-on-spills,--warning-as-error)
  if(CCACHE_PROGRAM)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${troupe_ccache})
  endif()
else()
  message(STATUS "No nvcc: the part for GPUs is left out, and a run with device = \"cuda\" will say so")
endif()
find_path(TROUPE_CUDA_HEADERS cuda_bf16.h
          HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} PATHS /usr/local/cuda/include ${TROUPE_CUDA_WHEELS}/cu13/include)
if(TROUPE_CUDA_HEADERS)
  find_path(TROUPE_NCCL_HEADERS nccl.h HINTS ${TROUPE_CUDA_HEADERS} PATHS ${TROUPE_CUDA_WHEELS}/nccl/include)
endif()
