#include "launch/manifest/tokenizing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "schedules/counted.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

using schedules::counted;

constexpr std::chrono::seconds kBetweenLines{10};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string text_of(std::uint64_t bytes) {
  return bytes_text(static_cast<std::int64_t>(bytes));
}

}  // namespace

Tokenizing::Tokenizing(SignalWatch& signals)
    : signals_(signals),
      terminal_(isatty(STDERR_FILENO) != 0),
      threads_(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
  auto orders = SignalWatch::ending_process(" while text was tokenized");
  orders.stop_now = std::exchange(orders.stop, [this](const std::string& reason) {
    reason_ = reason;
    stopped_ = true;
  });
  signals_.orders(std::move(orders));
}

Tokenizing::~Tokenizing() {
  signals_.orders(SignalWatch::ending_process(""));
  // The signal arrived too late for progress() to throw: end the process here, unless an error is
  // being thrown already.
  if (stopped_ && std::uncaught_exceptions() == 0) SignalWatch::ending_process("").stop(reason_);
}

stages::EncodeOptions Tokenizing::options() {
  begin_ = shown_ = Clock::now();
  return {.threads = threads_,
          .progress = [this](std::uint64_t done, std::uint64_t total) { progress(done, total); }};
}

void Tokenizing::progress(std::uint64_t done, std::uint64_t total) {
  if (stopped_)
    throw Error(ErrorKind::retry, fmt::format("{} while text was tokenized, {} of {} done; nothing "
                                              "of it is left, and the same command begins again",
                                              reason_, text_of(done), text_of(total)));
  const bool ends = done == total && shown_ != begin_;
  if (terminal_ || ends || Clock::now() - shown_ >= kBetweenLines) show(done, total);
}

void Tokenizing::show(std::uint64_t done, std::uint64_t total) {
  shown_ = Clock::now();
  const double seconds = seconds_since(begin_);
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
  const std::string line =
      done == total
          ? fmt::format("tokenized {} in {:.1f} s, {}/s with {}", text_of(total), seconds,
                        text_of(static_cast<std::uint64_t>(rate)), counted(threads_, "thread"))
          : fmt::format("tokenizing {}, {:.0f} % done, {}/s with {}, {} left", text_of(total),
                        100 * static_cast<double>(done) / static_cast<double>(total),
                        text_of(static_cast<std::uint64_t>(rate)), counted(threads_, "thread"),
                        duration_text(static_cast<double>(total - done) / std::max(rate, 1.0)));
  // On a terminal the line overwrites the one before; the escape code erases the rest of a longer
  // one.
  std::fputs(terminal_ ? ("\r" + line + "\x1b[K" + (done == total ? "\n" : "")).c_str()
                       : (line + "\n").c_str(),
             stderr);
}

}  // namespace troupe::launch
