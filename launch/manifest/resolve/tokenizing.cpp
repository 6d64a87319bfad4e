#include "launch/manifest/resolve/tokenizing.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "launch/host/console.h"
#include "launch/host/machine.h"
#include "launch/host/progress_line.h"
#include "launch/host/quantities.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

std::string text_of(std::uint64_t bytes) {
  return bytes_text(static_cast<std::int64_t>(bytes));
}

/// On a terminal the line of progress is complete by then.
void print_warnings(const std::vector<std::string>& warnings) {
  constexpr std::size_t kMost = 10;
  for (std::size_t i = 0; i < std::min(kMost, warnings.size()); ++i)
    print_error("warning: " + warnings[i]);
  if (warnings.size() > kMost)
    print_error(fmt::format("warning: so it is in {} more files", warnings.size() - kMost));
}

}  // namespace

Tokenizing::Tokenizing(SignalWatch& signals, Quiet quiet)
    : signals_(signals), threads_(this_machine().free_threads), quiet_(quiet) {
  auto orders = SignalWatch::ending_process(" while text was tokenized");
  orders.stop_now = std::exchange(orders.stop, [this](const std::string& reason) {
    reason_ = reason;
    stopped_ = true;
  });
  signals_.orders(std::move(orders));
}

Tokenizing::~Tokenizing() {
  print_warnings(warnings_);
  signals_.orders(SignalWatch::ending_process(""));
  // The signal arrived too late for progress() to throw: end the process here, unless an error is
  // being thrown already.
  if (stopped_ && std::uncaught_exceptions() == 0) SignalWatch::ending_process("").stop(reason_);
}

stages::EncodeOptions Tokenizing::options() {
  if (quiet_ == Quiet::no)
    line_ =
        progress_line("tokenizing", "tokenized", " with " + schedules::counted(threads_, "thread"));
  return {.threads = threads_,
          .progress = [this](std::uint64_t done, std::uint64_t total) { progress(done, total); },
          .warn = [this](const std::string& sentence) { warnings_.push_back(sentence); }};
}

void Tokenizing::progress(std::uint64_t done, std::uint64_t total) {
  if (stopped_)
    throw Error(ErrorKind::retry, fmt::format("{} while text was tokenized, {} of {} done; nothing "
                                              "of it is left, and the same command begins again",
                                              reason_, text_of(done), text_of(total)));
  if (line_) line_(done, total);
}

}  // namespace troupe::launch
