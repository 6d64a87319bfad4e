#include <array>

#include "launch/manifest/checks/check.h"

namespace troupe::launch {

void check_auto_mesh(const Manifest& m) {
  if (!m->auto_mesh) return;
  const std::array decided{&m.key_of(m->mesh.pp),         &m.key_of(m->mesh.dp),
                           &m.key_of(m->mesh.tp),         &m.key_of(m->mesh.sequence_parallel),
                           &m.key_of(m->layout),          &m.key_of(m->schedule.kind),
                           &m.key_of(m->schedule.chunks), &m.key_of(m->stages),
                           &m.key_of(m->mesh.ep),         &m.key_of(m->mesh.etp)};
  for (const Key* key : decided)
    if (m.given(*key))
      m.fail(*key,
             "{0} = {1} is a part of the layout that mesh.auto = true looks for; leave out {0}, or "
             "mesh.auto",
             key->full_name(), to_toml(m.value(*key)));
}

}  // namespace troupe::launch
