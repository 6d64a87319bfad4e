#include "actors/security/tls.h"

#include <openssl/err.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <utility>

#include "actors/security/openssl_library.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// While it lives, writing to a closed socket raises no signal in this thread, which OpenSSL has no
/// option for.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    constexpr timespec kNow{};
    sigtimedwait(&pipe_, nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{}, before_{};
};

bool has_role(X509* certificate, Role role) {
  const std::unique_ptr<EXTENDED_KEY_USAGE, FreedBy<EXTENDED_KEY_USAGE_free>> usages(
      static_cast<EXTENDED_KEY_USAGE*>(
          X509_get_ext_d2i(certificate, NID_ext_key_usage, nullptr, nullptr)));
  const std::unique_ptr<ASN1_OBJECT, FreedBy<ASN1_OBJECT_free>> wanted(
      OBJ_txt2obj(usage_of(role), 0));
  return usages && wanted && sk_ASN1_OBJECT_num(usages.get()) == 1 &&
         OBJ_cmp(sk_ASN1_OBJECT_value(usages.get(), 0), wanted.get()) == 0;
}

/// Called for each certificate of a chain, with what OpenSSL thinks of it.
int verify(int valid, X509_STORE_CTX* store) {
  const auto* session = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* peer = static_cast<const Role*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(session)));
  if (valid != 1 || X509_STORE_CTX_get_error_depth(store) > 0) return valid;
  if (has_role(X509_STORE_CTX_get_current_cert(store), *peer)) return 1;
  X509_STORE_CTX_set_error(store, X509_V_ERR_INVALID_PURPOSE);
  return 0;
}

SSL_CTX* new_context() {
  open_openssl();
  return SSL_CTX_new(TLS_method());
}

}  // namespace

TlsContext::TlsContext(const Credentials& own, Role peer) : peer_(peer), context_(new_context()) {
  SSL_CTX* const context = context_.get();
  const auto authority = read_certificate(own.authority),
             certificate = read_certificate(own.certificate);
  const auto key = read_key(own.key);
  const bool done = context && authority && certificate && key &&
                    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1 &&
                    SSL_CTX_use_certificate(context, certificate.get()) == 1 &&
                    SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
                    SSL_CTX_set_purpose(context, X509_PURPOSE_ANY) == 1 &&  // verify() looks
                    SSL_CTX_set_app_data(context, const_cast<Role*>(&peer_)) == 1 &&
                    SSL_CTX_set_num_tickets(context, 0) == 1;  // nobody resumes a session
  openssl_check(done, "set up TLS");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
}

TlsContext::~TlsContext() = default;

TlsSession::TlsSession(std::shared_ptr<TlsContext> context, int fd, Side side)
    : context_(std::move(context)),
      session_(SSL_new(context_->get())),
      accepts_(side == Side::server) {
  openssl_check(session_ && SSL_set_fd(session_.get(), fd) == 1, "begin a connection");
  if (side == Side::client)
    SSL_set_connect_state(session_.get());
  else
    SSL_set_accept_state(session_.get());
}

TlsSession::~TlsSession() {
  if (accepts_ && !trusted_) ++context_->refused_;
}

bool TlsSession::shake() {
  if (trusted_) return true;
  const NoPipeSignal no_signal;
  ERR_clear_error();
  const int result = SSL_do_handshake(session_.get());
  if (result != 1) return goes_on(result);
  trusted_ = true;
  const std::string early = std::exchange(early_, {});
  return early.empty() || write(early.data(), early.size()) == early.size();
}

std::optional<std::size_t> TlsSession::read(void* to, std::size_t size) {
  if (!shake()) return std::nullopt;
  if (!trusted_) return 0;
  const NoPipeSignal no_signal;
  // OpenSSL takes an error that another connection has left in this thread for this one's.
  ERR_clear_error();
  std::size_t got = 0;
  const int result = SSL_read_ex(session_.get(), to, size, &got);
  if (result == 1) return got;
  return goes_on(result) ? std::optional<std::size_t>(0) : std::nullopt;
}

std::optional<std::size_t> TlsSession::write(const void* from, std::size_t size) {
  if (!shake()) return std::nullopt;
  if (size == 0) return 0;
  if (!trusted_) {
    early_.append(static_cast<const char*>(from), size);
    return size;
  }
  const NoPipeSignal no_signal;
  ERR_clear_error();
  std::size_t put = 0;
  const int result = SSL_write_ex(session_.get(), from, size, &put);
  if (result == 1) return put;
  return goes_on(result) ? std::optional<std::size_t>(0) : std::nullopt;
}

std::size_t TlsSession::pending() const {
  return static_cast<std::size_t>(SSL_pending(session_.get()));
}

short TlsSession::awaited() const {
  return SSL_want_write(session_.get()) ? POLLOUT : POLLIN;
}

/// Whether OpenSSL only waits for the socket.
bool TlsSession::goes_on(int result) {
  const int error = SSL_get_error(session_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return true;
  const long verified = SSL_get_verify_result(session_.get());
  if (verified == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN)
    fault_ = "its certificate is of another run, or made with another secret than this side's";
  else if (verified != X509_V_OK)
    fault_ = X509_verify_cert_error_string(verified);
  else if (error == SSL_ERROR_SSL &&
           ERR_GET_REASON(ERR_peek_last_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING)
    fault_ = openssl_words();
  ERR_clear_error();
  return false;
}

std::optional<std::size_t> Link::read(void* to, std::size_t size) {
  if (session) return session->read(to, size);
  const ssize_t got = recv(socket.fd(), to, size, 0);
  if (got > 0) return static_cast<std::size_t>(got);
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? std::optional<std::size_t>(0)
                                                        : std::nullopt;
}

std::optional<std::size_t> Link::write(const void* from, std::size_t size) {
  if (session) return session->write(from, size);
  const ssize_t put = send(socket.fd(), from, size, MSG_NOSIGNAL);
  if (put >= 0) return static_cast<std::size_t>(put);
  return errno == EAGAIN || errno == EINTR ? std::optional<std::size_t>(0) : std::nullopt;
}

Link connect_tls(const std::shared_ptr<TlsContext>& context, const std::string& host, int port,
                 std::chrono::steady_clock::time_point deadline) {
  // Who waits longer looks for the name again, which may stand for another address then.
  constexpr std::chrono::seconds kAnswers{3};
  Link link{.socket = connect_to(host, port,
                                 std::min(deadline, std::chrono::steady_clock::now() + kAnswers)),
            .session = nullptr};
  const int fd = link.socket.fd();
  link.session = std::make_unique<TlsSession>(context, fd, TlsSession::Side::client);
  const auto fail = [&](ErrorKind kind, const std::string& why) {
    throw Error(kind, address_text(host, port) + ": " + why);
  };
  while (!link.session->is_trusted()) {
    if (!link.session->shake() && link.session->fault().empty())
      fail(ErrorKind::retry, "it closed the connection");
    if (!link.session->fault().empty()) fail(ErrorKind::unavailable, link.session->fault());
    if (!link.session->is_trusted() && !wait_for(fd, link.session->awaited(), deadline))
      fail(ErrorKind::retry, "it accepts connections, but does not answer in TLS");
  }
  return link;
}

}  // namespace troupe::actors
