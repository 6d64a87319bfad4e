#pragma once

#include <boost/container/static_vector.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "tensor/device/process_group.h"
#include "transport/edges/channel.h"

namespace troupe::transport {

using Clock = std::chrono::steady_clock;

/// What a wait is for, as values: naming a wait needs no heap memory until its text is read.
struct WaitNote {
  enum class What { message, credit, send_buffer, departure, collective };
  What what = What::message;
  MessageKey key;
  int peer = 0;
  /// This and the fields that follow are set only if the wait is for a collective.
  const char* operation = "";
  std::uint64_t sequence = 0;
  const std::string* group = nullptr;               ///< name of the group; outlives the wait
  boost::container::static_vector<int, 8> missing;  ///< ranks that are missing, the first few
};
/// A collective whose wait has a name.
class NamedWork : public tensor::Work {
 public:
  /// How far it is, as far as the host knows: among the hosts; or only a device has yet to move the
  /// results, which done() asks for; or done.
  enum class Stage { among_hosts, at_device, done };
  /// Asks no device and takes no lock, so that it may be called with that of the link, which done()
  /// may not.
  virtual Stage stage() const = 0;
  /// Called with the lock of the link that carries the collective.
  virtual WaitNote note() const = 0;
  /// Whether it ended without its results, so that wait() throws. Only once done() has been true.
  /// Takes no lock.
  virtual bool failed() const = 0;
  /// Makes threads that wait in the link that carries the collective ask done() again. Called
  /// without the link's lock.
  virtual void announce() {}
};
/// Rank of each process, as in ConfigurationSpec::ranks.
using RankNames = std::map<int, int>;
int rank_named(const RankNames& ranks, int process);
/// "activation of step 7, microbatch 3 into chunk 2 from rank 1".
std::string to_string(const WaitNote& note, const RankNames& ranks);

/// The waits of one process's compute thread, and how long each may last.
class WaitBoard {
 public:
  void set_deadline(std::chrono::milliseconds deadline);
  void set_ranks(const RankNames& ranks);
  /// The rank by which texts name a process.
  int rank_of(int process) const;
  /// The wait that the compute thread is in, if any. Callable from any thread.
  std::optional<Wait> current() const;

 private:
  friend class NamedWait;
  mutable std::mutex mutex_;
  std::chrono::milliseconds deadline_{0};
  std::optional<WaitNote> note_;
  RankNames ranks_;
  Clock::time_point since_;
};

/// One wait, on the board from construction to destruction.
class NamedWait {
 public:
  NamedWait(WaitBoard& board, const WaitNote& note);
  ~NamedWait();
  NamedWait(const NamedWait&) = delete;
  NamedWait& operator=(const NamedWait&) = delete;

  /// Replaces the note once it is clearer what the wait is for.
  void update(const WaitNote& note);
  Clock::time_point deadline() const { return deadline_; }
  /// The text "waited 60 s for ..." once the deadline has passed.
  std::optional<std::string> overdue() const;

 private:
  WaitBoard& board_;
  Clock::time_point deadline_;
};

}  // namespace troupe::transport
