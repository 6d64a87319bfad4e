#pragma once

#include <future>
#include <memory>
#include <utility>

namespace troupe::actors {

/// Counts the actors with threads of their own until they are destroyed, so that their actor system
/// can wait for that before it ends. CAF 0.17 tells the network's broker of the end of an actor
/// that other processes know. A broker that has stopped keeps the message, and with it the actor,
/// and ~actor_system waits for the actor's thread for ever. All threads.
class OwnThreads {
 public:
  /// A member of each such actor.
  using Token = std::shared_ptr<void>;

  Token token() const { return token_; }
  /// Returns once all other tokens are given back. Called once, when each of the actors has been
  /// told to end and the network still works.
  void wait() {
    token_.reset();
    all_gone_.wait();
  }

 private:
  struct Gone {
    ~Gone() { told.set_value(); }
    std::promise<void> told;
  };

  std::shared_ptr<Gone> gone_ = std::make_shared<Gone>();
  std::future<void> all_gone_ = gone_->told.get_future();
  Token token_ = std::move(gone_);
};

}  // namespace troupe::actors
