#include "stages/corpus/text/unpacked_file.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "stages/corpus/text/text_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(unpacked_file_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  ::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  BOOST_REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string xz(const std::string& text) {
  std::string out(::lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  BOOST_REQUIRE(::lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr,
                                          reinterpret_cast<const std::uint8_t*>(text.data()),
                                          text.size(), reinterpret_cast<std::uint8_t*>(out.data()),
                                          &size, out.size()) == LZMA_OK);
  out.resize(size);
  return out;
}

std::string unpacked(const std::string& path) {
  UnpackedFile file(path);
  std::string text;
  std::vector<char> part(1000);  // fewer than one packed part gives
  for (std::size_t bytes = 0; (bytes = file.read(part)) > 0;) text.append(part.data(), bytes);
  return text;
}

/// Of a size that takes several buffers, packed or not.
std::string some_text() {
  std::mt19937_64 random(7);
  std::string text;
  while (text.size() < 400'000) text += std::to_string(random()) + '\n';
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(packed_files_are_unpacked_whole) {
  const test::TempDir dir;
  const std::string text = some_text();
  for (const auto pack : {gzip, zstd, xz}) {
    const std::string once = dir.write("once", pack(text));
    BOOST_TEST((unpacked(once) == text));
    BOOST_TEST(unpacked_size(once) == text.size());
    BOOST_TEST((unpacked(dir.write("twice", pack(text) + pack("end"))) == text + "end"));
    BOOST_TEST(unpacked(dir.write("empty", pack(""))) == "");
  }
  BOOST_TEST((unpacked(dir.write("plain", text)) == text));
  BOOST_TEST(packed_by(gzip("a")) == "gzip");
  BOOST_TEST(packed_by("text") == "");
}

BOOST_AUTO_TEST_CASE(the_pieces_of_a_packed_text_are_those_of_the_text) {
  const test::TempDir dir;
  const std::string text = some_text();
  for (const Cuts cuts : {Cuts::at_lines, Cuts::nowhere}) {
    std::string joined;
    for_each_piece(dir.write("a.txt.zst", zstd(text)), cuts,
                   [&](const Piece& piece) { joined += piece.text; });
    BOOST_TEST((joined == text));
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_cut_or_broken_is_named) {
  const test::TempDir dir;
  std::mt19937_64 random(test::fresh_seed());
  const std::string text = some_text();
  for (const auto pack : {gzip, zstd, xz}) {
    const std::string sound = pack(text);
    const std::string cut = dir.write("cut.gz", sound.substr(0, sound.size() - 9));
    test::expect_error(ErrorKind::data, {"cut.gz", "packed by", "cut off"}, [&] { unpacked(cut); });
    for (int round = 0; round < 20; ++round) try {
        unpacked(dir.write("broken", test::mutated(sound, random)));
      } catch (const Error& error) {
        BOOST_TEST((error.kind() == ErrorKind::data));
        BOOST_TEST(std::string(error.what()).find("broken") != std::string::npos);
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
