#include "actors/director/left_segments.h"

#include <sys/ipc.h>
#include <sys/shm.h>

#include <fstream>
#include <limits>
#include <string>

namespace troupe::actors {

void remove_left_segments(pid_t dead, std::time_t since) {
  std::ifstream segments("/proc/sysvipc/shm");
  segments.ignore(std::numeric_limits<std::streamsize>::max(), '\n');  // the line of column titles
  int id = 0;
  for (std::string key; segments >> key >> id;) {
    segments.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    shmid_ds status{};
    if (::shmctl(id, IPC_STAT, &status) != 0) continue;
    // Process numbers are used again: segments of an earlier process with this number are not ours
    // to remove.
    if (status.shm_cpid == dead && status.shm_nattch == 0 && status.shm_ctime >= since)
      ::shmctl(id, IPC_RMID, nullptr);
  }
}

}  // namespace troupe::actors
