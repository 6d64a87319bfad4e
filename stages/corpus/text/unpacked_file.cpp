#include "stages/corpus/text/unpacked_file.h"

#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

class UnpackedFile::Source {
 public:
  virtual ~Source() = default;
  virtual std::size_t read(std::span<char> out) = 0;
};

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kGzip = "gzip", kZstd = "zstd", kXz = "xz";
struct Magic {
  std::string_view bytes;
  std::string_view name;
};
constexpr auto kMagics = std::to_array<Magic>({{"\x1f\x8b"sv, kGzip},
                                               {"\x28\xb5\x2f\xfd"sv, kZstd},
                                               {"\xfd"
                                                "7zXZ\0"sv,
                                                kXz}});

/// The file as it is.
class PlainSource final : public UnpackedFile::Source {
 public:
  explicit PlainSource(InputFile file) : file_(std::move(file)) {}
  std::size_t read(std::span<char> out) override {
    const auto bytes = std::min<std::uint64_t>(out.size(), file_.size() - at_);
    file_.read(at_, std::as_writable_bytes(out.first(bytes)));
    at_ += bytes;
    return bytes;
  }

 private:
  InputFile file_;
  std::uint64_t at_ = 0;
};

/// What is the same for all programs: the packed bytes that are at hand, and messages.
class PackedSource : public UnpackedFile::Source {
 public:
  PackedSource(InputFile file, std::string_view name)
      : path_(file.path().string()), name_(name), file_(std::move(file)) {}

 protected:
  /// The packed bytes that are not used yet; empty at the file's end.
  std::span<const char> packed() {
    if (used_ == held_) {
      held_ = file_.read(buffer_);
      used_ = 0;
    }
    return std::span(buffer_).subspan(used_, held_ - used_);
  }
  void use(std::size_t bytes) { used_ += bytes; }
  [[noreturn]] void fail(std::string_view why) const {
    throw Error(ErrorKind::data, fmt::format("{}: packed by {}, but {}", path_, name_, why));
  }
  [[noreturn]] void fail_cut() const { fail("it is cut off: its end is missing"); }

 private:
  std::string path_;
  std::string_view name_;
  PlainSource file_;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{1} << 16);
  std::size_t used_ = 0, held_ = 0;
};

class GzipSource final : public PackedSource {
 public:
  explicit GzipSource(InputFile file) : PackedSource(std::move(file), kGzip) {
    constexpr int kWithHeader = 15 + 16;
    if (::inflateInit2(&stream_, kWithHeader) != Z_OK) fail("zlib cannot begin");
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }

  std::size_t read(std::span<char> out) override {
    const auto room = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = room;
    while (stream_.avail_out == room) {
      const auto in = packed();
      if (in.empty() && !at_end_) fail_cut();
      if (in.empty()) return 0;
      if (at_end_) ::inflateReset(&stream_);  // another file may follow in the same one
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
      stream_.avail_in = static_cast<uInt>(in.size());
      const int result = ::inflate(&stream_, Z_NO_FLUSH);
      use(in.size() - stream_.avail_in);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        fail(stream_.msg ? stream_.msg : "its bytes are broken");
      at_end_ = result == Z_STREAM_END;
    }
    return room - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool at_end_ = false;
};

class ZstdSource final : public PackedSource {
 public:
  explicit ZstdSource(InputFile file)
      : PackedSource(std::move(file), kZstd), stream_(::ZSTD_createDStream()) {
    if (!stream_) fail("zstd cannot begin");
  }
  ~ZstdSource() override { ::ZSTD_freeDStream(stream_); }

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      const auto held = packed();
      // What it keeps may fill more buffers than one.
      if (held.empty() && at_end_) return 0;
      ZSTD_inBuffer in{held.data(), held.size(), 0};
      const std::size_t left = ::ZSTD_decompressStream(stream_, &to, &in);
      use(in.pos);
      if (::ZSTD_isError(left)) fail(::ZSTD_getErrorName(left));
      at_end_ = left == 0;
      if (held.empty() && !at_end_ && to.pos == 0) fail_cut();
    }
    return to.pos;
  }

 private:
  ZSTD_DStream* stream_;
  bool at_end_ = false;
};

class XzSource final : public PackedSource {
 public:
  explicit XzSource(InputFile file) : PackedSource(std::move(file), kXz) {
    constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 30;
    if (::lzma_stream_decoder(&stream_, kMostMemory, LZMA_CONCATENATED) != LZMA_OK)
      fail("liblzma cannot begin");
  }
  ~XzSource() override { ::lzma_end(&stream_); }

  std::size_t read(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    while (!at_end_ && stream_.avail_out == out.size()) {
      const auto in = packed();
      stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
      stream_.avail_in = in.size();
      const lzma_ret result = ::lzma_code(&stream_, in.empty() ? LZMA_FINISH : LZMA_RUN);
      use(in.size() - stream_.avail_in);
      at_end_ = result == LZMA_STREAM_END;
      if (result == LZMA_BUF_ERROR && in.empty()) fail_cut();
      if (result == LZMA_MEMLIMIT_ERROR) fail("it needs more than 1 GiB to be unpacked");
      if (result != LZMA_OK && !at_end_ && result != LZMA_BUF_ERROR) fail("its bytes are broken");
    }
    return out.size() - stream_.avail_out;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool at_end_ = false;
};

/// The bytes that tell how a file is packed.
std::string head_of(const InputFile& file) {
  std::string head(std::min<std::uint64_t>(file.size(), 8), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  return head;
}

std::unique_ptr<UnpackedFile::Source> source_of(const std::string& path) {
  InputFile file = InputFile::open(path);
  const std::string_view name = packed_by(head_of(file));
  if (name == kGzip) return std::make_unique<GzipSource>(std::move(file));
  if (name == kZstd) return std::make_unique<ZstdSource>(std::move(file));
  if (name == kXz) return std::make_unique<XzSource>(std::move(file));
  return std::make_unique<PlainSource>(std::move(file));
}

}  // namespace

UnpackedFile::UnpackedFile(const std::string& path) : source_(source_of(path)) {}
UnpackedFile::~UnpackedFile() = default;

std::size_t UnpackedFile::read(std::span<char> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t bytes = source_->read(out.subspan(done));
    if (bytes == 0) break;
    done += bytes;
  }
  return done;
}

std::string_view packed_by(std::string_view head) {
  const auto* const found = std::ranges::find_if(
      kMagics, [&](const Magic& magic) { return head.starts_with(magic.bytes); });
  return found == kMagics.end() ? "" : found->name;
}

std::uint64_t unpacked_size(const std::string& path) {
  if (const InputFile as_it_is = InputFile::open(path); packed_by(head_of(as_it_is)).empty())
    return as_it_is.size();
  UnpackedFile file(path);
  std::vector<char> buffer(std::size_t{1} << 16);
  std::uint64_t size = 0;
  for (std::size_t bytes = 0; (bytes = file.read(buffer)) > 0;) size += bytes;
  return size;
}

}  // namespace troupe::stages
