#include "transport/memory/shared_pages.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>

namespace troupe::transport {

BOOST_AUTO_TEST_SUITE(shared_pages_test)

namespace {

constexpr std::size_t kBytes = (std::size_t{2} << 20) + 4096;

/// Private memory full of one byte.
class Memory {
 public:
  explicit Memory(unsigned char byte)
      : data_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    std::fill_n(bytes(), kBytes, byte);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(data_, kBytes); }
  void* data() const { return data_; }
  unsigned char* bytes() const { return static_cast<unsigned char*>(data_); }
  bool is_all(unsigned char byte) const {
    return std::all_of(bytes(), bytes() + kBytes, [=](unsigned char x) { return x == byte; });
  }
  /// Whether it is mapped from a file that others may have mapped too.
  bool is_shared() const {
    std::ifstream maps("/proc/self/maps");
    const std::string begin = [&] {
      char text[32];
      std::snprintf(text, sizeof text, "%lx-", reinterpret_cast<unsigned long>(data_));
      return std::string(text);
    }();
    for (std::string line; std::getline(maps, line);)
      if (line.starts_with(begin)) return line.find("shared pages") != std::string::npos;
    return false;
  }

 private:
  void* data_;
};

std::string own_name(const char* what) {
  return std::string("troupe-test-") + what + std::to_string(::getpid());
}

/// What another process finds under this name; -1: nothing.
int byte_taken_by_another(const std::string& name) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Memory memory(7);
    const bool taken = SharedPages(name, memory.data(), kBytes).take();
    ::_exit(taken && memory.is_all(memory.bytes()[0]) ? memory.bytes()[0] : 255);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_one_offers_and_others_take) {
  const std::string name = own_name("offer");
  const Memory first(42), second(42), third(9);
  BOOST_TEST(SharedPages::can_share(first.data(), kBytes));
  SharedPages last(name, third.data(), kBytes);
  BOOST_TEST(!last.take());
  BOOST_TEST(third.is_all(9));
  {
    SharedPages offered(name, first.data(), kBytes), late(name, second.data(), kBytes);
    offered.give();
    BOOST_TEST(first.is_shared());
    BOOST_TEST(first.is_all(42));
    BOOST_TEST(byte_taken_by_another(name) == 42);
    late.give();  // takes what the first one offers
    BOOST_TEST(second.is_shared());
    BOOST_TEST(second.is_all(42));
    BOOST_TEST(last.take());
    last.offer();  // which the first one does
  }
  BOOST_TEST(third.is_all(42));  // though nobody offers it any more
  BOOST_TEST(byte_taken_by_another(name) == -1);
  last.offer();
  BOOST_TEST(byte_taken_by_another(name) == 42);
}

BOOST_AUTO_TEST_CASE(other_bytes_are_not_taken) {
  const std::string name = own_name("size");
  const Memory first(42), second(9);
  SharedPages offered(name, first.data(), kBytes);
  offered.give();
  BOOST_TEST(!SharedPages(name, second.data(), kBytes - 4096).take());
  BOOST_TEST(!SharedPages(name + "x", second.data(), kBytes).take());
  BOOST_TEST(second.is_all(9));
  BOOST_TEST(!SharedPages::can_share(second.bytes() + 8, kBytes));
  BOOST_TEST(!SharedPages::can_share(second.data(), 4096));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::transport
