#include "launch/host/console_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <regex>
#include <string>
#include <thread>

namespace troupe::launch {

BOOST_AUTO_TEST_SUITE(console_writer_test)

namespace {

/// A pipe whose ends block, as a shell makes it.
struct Pipe {
  Pipe() { BOOST_REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0); }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  /// Closes the writing end and returns all that is left in the pipe.
  std::string rest() {
    close(ends[1]);
    ends[1] = -1;
    std::string all;
    std::array<char, 4096> bytes{};
    for (ssize_t n = 0; (n = read(ends[0], bytes.data(), bytes.size())) > 0;)
      all.append(bytes.data(), static_cast<std::size_t>(n));
    return all;
  }

  std::array<int, 2> ends{-1, -1};
};

}  // namespace

BOOST_AUTO_TEST_CASE(lines_arrive_in_order_on_their_streams) {
  Pipe out, err;
  {
    ConsoleWriter console(out.ends[1], err.ends[1]);
    console.show("one\n");
    console.show("");
    console.show("two\nthree\n");
    console.print_error("no room");
    console.finish();
    BOOST_TEST(!console.has_failed());
  }
  BOOST_TEST(out.rest() == "one\ntwo\nthree\n");
  BOOST_TEST(err.rest() == "troupe: no room\n");
}

BOOST_AUTO_TEST_CASE(each_line_tells_its_time_if_asked) {
  Pipe out;
  {
    ConsoleWriter console(out.ends[1], out.ends[1]);
    console.show("before\n");
    console.stamp_lines();
    console.show("one\n\ntwo\n");
    console.print_error("no room");
  }
  const std::string stamp = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}[+-][0-9]{4} ";
  const std::string all = out.rest();
  BOOST_TEST(std::regex_match(all, std::regex("before\n" + stamp + "one\n" + stamp + "\n" + stamp +
                                              "two\n" + stamp + "troupe: no room\n")),
             all);
}

BOOST_AUTO_TEST_CASE(a_long_text_arrives_whole_while_it_is_read) {
  Pipe out;
  const std::string text(1 << 20, 'x');
  std::string read;
  std::thread reader;
  {
    ConsoleWriter console(out.ends[1], out.ends[1]);
    console.show(text + "\n");
    reader = std::thread([&] {
      std::array<char, 1000> bytes{};
      while (read.size() <= text.size())
        read.append(bytes.data(),
                    static_cast<std::size_t>(::read(out.ends[0], bytes.data(), bytes.size())));
    });
    console.finish();
  }
  reader.join();
  BOOST_TEST((read == text + "\n"));
}

BOOST_AUTO_TEST_CASE(a_reader_who_stops_reading_holds_up_nobody) {
  Pipe out;
  const std::size_t count = 3 * ConsoleWriter::kMaxWaiting;
  {
    ConsoleWriter console(out.ends[1], out.ends[1]);
    for (std::size_t i = 0; i < count; ++i)
      console.show("line " + std::to_string(i) + std::string(100, '.') + "\n");
    console.finish();
    BOOST_TEST(!console.has_failed());
  }
  BOOST_TEST((fcntl(out.ends[1], F_GETFL) & O_NONBLOCK) == 0);
  const std::string rest = out.rest();
  BOOST_TEST(!rest.empty());
  BOOST_TEST(rest.size() < 100 * count);
}

BOOST_AUTO_TEST_CASE(who_reads_on_is_told_what_is_left_out) {
  Pipe out;
  std::string all;
  std::array<char, 4096> bytes{};
  {
    ConsoleWriter console(out.ends[1], out.ends[1]);
    for (std::size_t i = 0; i < 3 * ConsoleWriter::kMaxWaiting; ++i)
      console.show("line " + std::to_string(i) + std::string(100, '.') + "\n");
    while (all.find("[left out here, because the output was not read: ") == std::string::npos)
      all.append(bytes.data(),
                 static_cast<std::size_t>(read(out.ends[0], bytes.data(), bytes.size())));
    console.finish();
  }
}

BOOST_AUTO_TEST_CASE(what_the_system_refuses_is_remembered) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ConsoleWriter console(full, full);
  console.print_error("only standard output counts");
  console.show("a run goes on\n");
  console.finish();
  BOOST_TEST(console.has_failed());
  close(full);

  ConsoleWriter nowhere(-1, -1);
  nowhere.show("a line\n");
  nowhere.finish();
  BOOST_TEST(nowhere.has_failed());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::launch
