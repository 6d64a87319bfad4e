#include "tests/support/browser.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <vector>

namespace troupe::test {
namespace {

using nlohmann::json;

// Ends of the pipes in the browser: it reads commands from the first and writes to the second.
constexpr int kCommands = 3, kAnswers = 4;

// A test that ends by its time limit has said what it waited for.
constexpr int kTriesUntilTold = 600;

/// A pipe whose ends are none of the two above.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  BOOST_REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  for (int& end : ends) {
    const int high = fcntl(end, F_DUPFD_CLOEXEC, 10);
    close(end);
    end = high;
  }
  return ends;
}

}  // namespace

std::optional<std::string> Browser::installed() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"chromium-headless-shell", "chromium"})
      if (const auto program = std::filesystem::path(folder) / name; exists(program))
        return program.string();
  return std::nullopt;
}

Browser::Browser(const std::string& program, const std::string& url, int width, int height) {
  std::vector<std::string> words{program,
                                 "--headless",
                                 "--no-sandbox",
                                 "--disable-gpu",
                                 "--no-first-run",
                                 "--remote-debugging-pipe",
                                 "--user-data-dir=" + profile_.path().string()};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const auto commands = make_pipe(), answers = make_pipe();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);  // its helpers are ended with it
    dup2(commands[0], kCommands);
    dup2(answers[1], kAnswers);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  close(commands[0]);
  close(answers[1]);
  to_ = commands[1];
  from_ = answers[0];
  const json target = call("Target.createTarget", {{"url", "about:blank"}});
  session_ = call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}})
                 .at("sessionId");
  call("Runtime.enable", json::object());
  resize(width, height);
  call("Page.navigate", {{"url", url}});
  wait_for("document.readyState === 'complete' && location.href !== 'about:blank'");
}

Browser::~Browser() {
  close(to_);
  close(from_);
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Browser::resize(int width, int height) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
}

json Browser::value_of(const std::string& expression) {
  const json answer =
      call("Runtime.evaluate",
           {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
  BOOST_REQUIRE_MESSAGE(!answer.contains("exceptionDetails"), expression << ": " << answer.dump());
  return answer.at("result").value("value", json());
}

void Browser::wait_for(const std::string& expression) {
  // The page may be another one soon after it was opened, which ends what is evaluated in it.
  for (int tries = 1; value_of("Boolean(" + expression + ")") != true; ++tries) {
    if (tries % kTriesUntilTold == 0) std::cerr << "still waiting for " << expression << "\n";
    value_of("new Promise(done => setTimeout(done, 50))");
  }
}

void Browser::press(const std::string& key) {
  const bool enter = key == "Enter";
  json down{{"type", "keyDown"}, {"key", key}, {"code", key}};
  down["windowsVirtualKeyCode"] = enter ? 13 : key == "Tab" ? 9 : key == "Escape" ? 27 : 0;
  if (enter) down["text"] = "\r";
  call("Input.dispatchKeyEvent", down);
  down["type"] = "keyUp";
  down.erase("text");
  call("Input.dispatchKeyEvent", down);
}

void Browser::click(const std::string& selector) {
  // Two frames later the page has been told that it was scrolled.
  const json place = value_of(
      "(async () => { const e = document.querySelector(" + json(selector).dump() +
      "); e.scrollIntoView({block: 'center'}); for (let i = 0; i < 2; ++i) await new "
      "Promise(requestAnimationFrame); const r = e.getBoundingClientRect(); return [r.x + r.width "
      "/ 2, r.y + r.height / 2]; })()");
  for (const char* type : {"mousePressed", "mouseReleased"})
    call("Input.dispatchMouseEvent",
         {{"type", type}, {"x", place[0]}, {"y", place[1]}, {"button", "left"}, {"clickCount", 1}});
}

json Browser::call(const std::string& method, json parameters) {
  json message{{"id", ++calls_}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  BOOST_REQUIRE_MESSAGE(write(to_, text.data(), text.size()) == std::ssize(text),
                        "the browser is gone before " << method);
  while (true) {
    const json answer = read_message();
    if (answer.value("method", "") == "Runtime.exceptionThrown")
      errors_ += answer.at("params").at("exceptionDetails").dump() + "\n";
    if (answer.value("id", 0) != calls_) continue;
    BOOST_REQUIRE_MESSAGE(!answer.contains("error"), method << ": " << answer.dump());
    return answer.at("result");
  }
}

json Browser::read_message() {
  std::size_t end = 0;
  while ((end = buffered_.find('\0')) == std::string::npos) {
    std::array<char, 65536> chunk{};
    const ssize_t got = read(from_, chunk.data(), chunk.size());
    BOOST_REQUIRE_MESSAGE(got > 0, "the browser has ended");
    buffered_.append(chunk.data(), static_cast<std::size_t>(got));
  }
  const json message = json::parse(buffered_.substr(0, end));
  buffered_.erase(0, end + 1);
  return message;
}

}  // namespace troupe::test
