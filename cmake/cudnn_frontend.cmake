# The headers of cuDNN's frontend (MIT and Apache-2.0), by which attention calls cuDNN. They come as a wheel of PyPI,
# once for all presets; without them attention runs on kernels of our own alone.
set(version 1.32.0)
set(hash c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0)
set(folder ${CMAKE_SOURCE_DIR}/build/cudnn_frontend-${version})
if(NOT EXISTS ${folder}/include/cudnn_frontend.h)
  set(part ${CMAKE_BINARY_DIR}/cudnn_frontend)
  file(REMOVE_RECURSE ${part})
  file(WRITE ${part}/wheel.txt "nvidia-cudnn-frontend==${version} --hash=sha256:${hash}\n")
  execute_process(
    COMMAND python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest ${part}
            --only-binary=:all: --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64
            --requirement ${part}/wheel.txt
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  file(GLOB wheel ${part}/*.whl)
  if(wheel)
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${part} PATTERNS "include/*" "*/licenses/*")
    file(MAKE_DIRECTORY ${CMAKE_SOURCE_DIR}/build)
    file(REMOVE_RECURSE ${folder})
    file(REMOVE ${wheel})
    file(RENAME ${part} ${folder})
  else()
    message(STATUS "No nvidia-cudnn-frontend ${version} from PyPI (python3 -m pip download failed): attention on a GPU "
                   "will not use cuDNN")
  endif()
endif()
set(TROUPE_CUDNN_HEADERS)
if(EXISTS ${folder}/include/cudnn_frontend.h)
  find_path(CUDNN_HEADER_FOLDER cudnn.h HINTS ${TROUPE_CUDA_HEADERS} ${TROUPE_CUDA_HEADERS}/../../cudnn/include
            ${TROUPE_CUDA_WHEELS}/cudnn/include)
  if(CUDNN_HEADER_FOLDER)
    set(TROUPE_CUDNN_HEADERS ${folder}/include ${CUDNN_HEADER_FOLDER})
  else()
    message(STATUS "No cudnn.h: attention on a GPU will not use cuDNN")
  endif()
endif()
