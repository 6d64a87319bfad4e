# cmake -DOUT=FILE -DHEADERS=LIST -P interface_hash.cmake: writes a C++ file with a hash of the headers, which changes when
# one of them does, and so when what the program and its back end tell each other may mean another thing.
set(sums)
foreach(header IN LISTS HEADERS)
  file(SHA256 ${header} sum)
  list(APPEND sums ${sum})
endforeach()
string(SHA256 hash "${sums}")
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "tensor/libraries/device_library.h"

const char* troupe::tensor::interface_hash() {
  return "@hash@";
}
]])
