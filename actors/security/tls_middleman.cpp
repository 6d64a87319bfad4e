#include "actors/security/tls_middleman.h"

#include <sys/socket.h>

#include <caf/actor_system.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/stream_impl.hpp>
#include <optional>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

using caf::io::network::default_multiplexer;
using caf::io::network::native_socket;
using caf::io::network::rw_state;

/// How long one that has connected may take to show its certificate, and how many may be about it.
constexpr std::chrono::seconds kStrangerPatience{10};
constexpr std::size_t kMostStrangers = 256;

/// How CAF's stream reads and writes.
class TlsPolicy {
 public:
  TlsPolicy(std::unique_ptr<TlsSession> session, std::shared_ptr<TlsLinks> links, int fd)
      : session_(std::move(session)), links_(std::move(links)) {
    if (!session_->is_trusted()) stranger_ = links_->meet(fd);
  }
  TlsPolicy(const TlsPolicy&) = delete;
  ~TlsPolicy() {
    if (stranger_) links_->forget(*stranger_);
  }

  rw_state read_some(std::size_t& result, native_socket, void* to, std::size_t size) {
    return state(result, session_->read(to, size));
  }
  rw_state write_some(std::size_t& result, native_socket, const void* from, std::size_t size) {
    return state(result, session_->write(from, size));
  }
  bool must_read_more(native_socket, std::size_t threshold) {
    const std::size_t pending = session_->pending();
    return pending > 0 && pending >= threshold;
  }

 private:
  rw_state state(std::size_t& result, const std::optional<std::size_t>& done) {
    result = done.value_or(0);
    if (stranger_ && session_->is_trusted()) {
      links_->forget(*stranger_);
      stranger_.reset();
    }
    if (done) return rw_state::success;
    if (!session_->fault().empty()) links_->note(session_->fault());
    return rw_state::failure;
  }

  const std::unique_ptr<TlsSession> session_;
  const std::shared_ptr<TlsLinks> links_;
  std::optional<TlsLinks::Strangers::iterator> stranger_;
};

/// CAF's scribe_impl, whose stream is one over TLS.
class TlsScribe : public caf::io::scribe {
 public:
  TlsScribe(default_multiplexer& multiplexer, Link link, const std::shared_ptr<TlsLinks>& links)
      : scribe(caf::io::network::conn_hdl_from_socket(link.socket.fd())),
        stream_(multiplexer, link.socket.fd(), std::move(link.session), links, link.socket.fd()) {
    link.socket.release();  // the stream's now
  }

  void configure_read(caf::io::receive_policy::config config) override {
    stream_.configure_read(config);
    if (!std::exchange(launched_, true)) stream_.start(this);
  }
  void ack_writes(bool enable) override { stream_.ack_writes(enable); }
  std::vector<char>& wr_buf() override { return stream_.wr_buf(); }
  std::vector<char>& rd_buf() override { return stream_.rd_buf(); }
  void graceful_shutdown() override {
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }
  void flush() override { stream_.flush(this); }
  std::string addr() const override {
    auto address = caf::io::network::remote_addr_of_fd(stream_.fd());
    return address ? std::move(*address) : std::string();
  }
  std::uint16_t port() const override {
    const auto port = caf::io::network::remote_port_of_fd(stream_.fd());
    return port ? *port : std::uint16_t{0};
  }
  void add_to_loop() override { stream_.activate(this); }
  void remove_from_loop() override { stream_.passivate(); }

 private:
  bool launched_ = false;
  caf::io::network::stream_impl<TlsPolicy> stream_;
};

class TlsDoorman : public caf::io::network::doorman_impl {
 public:
  TlsDoorman(default_multiplexer& multiplexer, Socket socket, std::shared_ptr<TlsContext> context,
             std::shared_ptr<TlsLinks> links)
      : doorman_impl(multiplexer, socket.release()),
        context_(std::move(context)),
        links_(std::move(links)) {}

  bool new_connection() override {
    Link link{.socket = Socket(acceptor_.accepted_socket()), .session = nullptr};
    if (detached()) return false;
    const int fd = link.socket.fd();
    caf::io::network::nonblocking(fd, true);
    try {
      link.session = std::make_unique<TlsSession>(context_, fd, TlsSession::Side::server);
    } catch (const Error&) {
      return false;  // no memory for it: the stranger is turned away
    }
    auto scribe = caf::make_counted<TlsScribe>(acceptor_.backend(), std::move(link), links_);
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&acceptor_.backend(), handle);
  }

 private:
  const std::shared_ptr<TlsContext> context_;
  const std::shared_ptr<TlsLinks> links_;
};

/// CAF's middleman actor, which gets its sockets from SecureLinks.
class TlsMiddleman : public caf::io::middleman_actor_impl {
 public:
  TlsMiddleman(caf::actor_config& config, caf::actor broker, std::shared_ptr<TlsContext> context,
               std::shared_ptr<TlsLinks> links)
      : middleman_actor_impl(config, std::move(broker)),
        context_(std::move(context)),
        links_(std::move(links)) {}

 protected:
  caf::expected<caf::io::scribe_ptr> connect(const std::string& name, std::uint16_t) override {
    Link link = links_->take(name);
    if (!link.session) return caf::sec::cannot_connect_to_node;
    return caf::io::scribe_ptr(
        caf::make_counted<TlsScribe>(multiplexer(), std::move(link), links_));
  }
  caf::expected<caf::io::doorman_ptr> open(std::uint16_t, const char* name, bool) override {
    Link link = links_->take(name);
    if (link.socket.fd() < 0) return caf::sec::cannot_open_port;
    return caf::io::doorman_ptr(
        caf::make_counted<TlsDoorman>(multiplexer(), std::move(link.socket), context_, links_));
  }

 private:
  default_multiplexer& multiplexer() {
    return static_cast<default_multiplexer&>(system().middleman().backend());
  }

  const std::shared_ptr<TlsContext> context_;
  const std::shared_ptr<TlsLinks> links_;
};

}  // namespace

TlsLinks::Strangers::iterator TlsLinks::meet(int fd) {
  const auto now = std::chrono::steady_clock::now();
  while (!strangers_.empty() && (strangers_.size() >= kMostStrangers ||
                                 now - strangers_.front().since > kStrangerPatience)) {
    strangers_.front().is_cut = true;
    ::shutdown(strangers_.front().fd, SHUT_RDWR);  // CAF notices, and closes it
    cut_.splice(cut_.end(), strangers_, strangers_.begin());
  }
  return strangers_.insert(strangers_.end(), {.fd = fd, .since = now});
}

caf::io::middleman_actor spawn_tls_middleman(caf::actor_system& system,
                                             std::shared_ptr<TlsContext> context,
                                             std::shared_ptr<TlsLinks> links) {
  caf::actor broker = system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  return system.spawn<TlsMiddleman, caf::detached + caf::hidden>(
      std::move(broker), std::move(context), std::move(links));
}

}  // namespace troupe::actors
