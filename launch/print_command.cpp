#include "launch/commands.h"
#include "launch/console.h"

namespace troupe::launch {

int run(const PrintText& text) {
  print(text.text);
  return 0;
}

}  // namespace troupe::launch
