# Debian's libcaf-dev brings no CMake or pkg-config files, so this file finds the headers and libraries.
# Defines CAF::core and CAF::io; their headers count as system headers.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
find_library(CAF_IO_LIBRARY caf_io)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_INCLUDE_DIR CAF_CORE_LIBRARY CAF_IO_LIBRARY)
foreach(part core io)
  string(TOUPPER ${part} PART)
  if(CAF_FOUND AND NOT TARGET CAF::${part})
    add_library(CAF::${part} UNKNOWN IMPORTED)
    set_target_properties(CAF::${part} PROPERTIES IMPORTED_LOCATION ${CAF_${PART}_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
  endif()
endforeach()
if(TARGET CAF::io)
  set_property(TARGET CAF::io PROPERTY INTERFACE_LINK_LIBRARIES CAF::core Threads::Threads)
endif()
