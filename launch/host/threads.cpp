#include "launch/host/threads.h"

#include <fmt/format.h>

#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "tensor/error.h"
#include "tensor/shortage.h"

namespace troupe::launch {

void require_threads(int count) {
  std::promise<void> enough;
  const std::shared_future<void> all = enough.get_future().share();
  std::vector<std::jthread> threads;
  int code = 0;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([all] { all.wait(); });
  } catch (const std::system_error& error) {
    code = error.code().value();
  }
  const std::string lacks = code == 0 ? "" : shortage(code);  // while they have what they take
  enough.set_value();
  if (code != 0)
    throw Error(ErrorKind::unavailable,
                fmt::format("the launcher needs {} threads, and the machine gives it {}: it has {}",
                            count, threads.size(), lacks));
}

}  // namespace troupe::launch
