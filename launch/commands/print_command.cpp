#include "launch/commands/commands.h"
#include "launch/host/console.h"

namespace troupe::launch {

int run(const PrintText& text) {
  print(text.text);
  return 0;
}

}  // namespace troupe::launch
