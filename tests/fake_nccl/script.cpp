#include "tests/fake_nccl/script.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

namespace troupe::fake_nccl {
namespace {

const char* setting(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::mutex mutex;  // guards what a process counts
std::map<std::string, int> calls;
int taken_mib = 0;

}  // namespace

Script Script::now() {
  Script script;
  if (*setting("FAKE_NCCL_POLLS")) script.polls = std::atoi(setting("FAKE_NCCL_POLLS"));
  script.hold = setting("FAKE_NCCL_HOLD");
  script.abort_hangs = std::string(setting("FAKE_NCCL_ABORT")) == "hangs";
  (void)std::sscanf(setting("FAKE_NCCL_MEMORY"), "%d:%d", &script.memory_of_each,
                    &script.memory_of_all);
  return script;
}

ncclResult_t scripted_result(const char* function) {
  const std::string rule = setting("FAKE_NCCL_FAIL");
  const std::string name = rule.substr(0, rule.find(':'));
  if (name != function) return ncclSuccess;
  int call = 0, result = 0;
  (void)std::sscanf(rule.c_str() + name.size(), ":%d:%d", &call, &result);
  const std::lock_guard lock(mutex);
  return ++calls[name] == call ? static_cast<ncclResult_t>(result) : ncclSuccess;
}

void tell_settings() {
  if (const std::string file = setting("FAKE_NCCL_TELL"); !file.empty())
    std::ofstream(file, std::ios::app)
        << std::string(setting("NCCL_SOCKET_IFNAME")) + ' ' + setting("NCCL_NVLS_ENABLE") + '\n';
}

bool take_memory(const Script& script) {
  const std::lock_guard lock(mutex);
  if (taken_mib + script.memory_of_each > script.memory_of_all) return script.memory_of_all == 0;
  taken_mib += script.memory_of_each;
  return true;
}

void give_memory_back(const Script& script) {
  const std::lock_guard lock(mutex);
  if (script.memory_of_all > 0) taken_mib -= script.memory_of_each;
}

}  // namespace troupe::fake_nccl
