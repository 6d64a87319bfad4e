#pragma once

#include <termios.h>

#include <string>
#include <vector>

#include "launch/screen/keys.h"

namespace troupe::launch {

/// The terminal that standard output is, held in the mode of a screen as long as this lives:
/// another page than the shell's, no cursor, no echo, each key delivered at once. A terminal that
/// takes nothing (Ctrl-S, a slow line) holds up nobody: what it has not taken waits here.
class Terminal {
 public:
  Terminal();
  Terminal(const Terminal&) = delete;
  /// Gives the terminal back as it was.
  ~Terminal();

  /// Called again after the process was stopped, because the shell has set modes of its own.
  void enter();
  void leave();

  struct Size {
    int width = 80;
    int height = 24;
  };
  Size size() const;

  /// Whether all that was sent has been taken, so that another frame may be sent.
  bool is_ready() const { return unsent_.empty(); }
  void send(const std::string& bytes);
  /// Sends on what waits.
  void flush();
  /// A descriptor that is writable when flush() will get on.
  int output() const { return out_; }

  /// A descriptor that is readable when keys were pressed; -1 if there is no keyboard.
  int keyboard() const;
  struct Pressed {
    std::vector<KeyPress> keys;
    bool gone = false;  ///< the terminal is closed
  };
  /// The keys that were pressed. keyboard() must be readable.
  Pressed pressed();

 private:
  int out_ = -1;
  bool own_ = false;  // out_ is a descriptor of our own, which does not block
  termios before_{};
  bool keys_ = false;
  KeyReader reader_;
  std::string unsent_;
};

}  // namespace troupe::launch
