// A libtroupe_cuda.so that was built from other interfaces than the tests' own.

extern "C" __attribute__((visibility("default"))) const char* troupe_interface() {
  return "0123456789abcdef";
}
