#include "launch/manifest/inputs.h"

#include <fmt/format.h>

#include "launch/manifest/check.h"
#include "launch/manifest/corpus.h"
#include "launch/manifest/differences.h"
#include "launch/manifest/resolve.h"
#include "launch/manifest/run_spec.h"

namespace troupe::launch {
namespace {

constexpr const char* kResume = "checkpoint.resume";

void check_steps_left(const Manifest& m, const stages::CheckpointInfo& info) {
  const std::int64_t max_steps = m.integer("run.max_steps");
  if (info.step >= max_steps)
    m.fail(
        "run.max_steps",
        fmt::format(
            "run.max_steps = {} counts from the first start, and checkpoint.resume is of step {}; "
            "at least {}",
            max_steps, info.step, info.step + 1));
}

/// Calls `body` and gives its errors the place in the manifest that names the checkpoint.
template <typename Body>
auto about_resume(const Manifest& m, const Body& body) try {
  return body();
} catch (const Error& error) {
  m.fail(kResume, error.what(), error.kind());
}

void check_model(const Manifest& m, const stages::CheckpointReader& checkpoint) {
  about_resume(m, [&] { checkpoint.check_model(to_run_spec(m).model); });
}

}  // namespace

Manifest load_manifest(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                       const Machine& machine) {
  Manifest manifest = Manifest::read(path, overrides);
  resolve(manifest, machine);
  check(manifest);
  check_corpus(manifest);
  return manifest;
}

std::optional<stages::CheckpointInfo> check_start(const Manifest& m) {
  if (m.text(kResume).empty()) return std::nullopt;
  const auto checkpoint =
      about_resume(m, [&] { return stages::CheckpointReader::open(m.text(kResume)); });
  about_resume(m, [&] { checkpoint->verify(); });
  if (m.flag("checkpoint.weights_only")) {
    check_model(m, *checkpoint);
    return std::nullopt;
  }
  check_fits(m, *checkpoint);
  return checkpoint->info();
}

void check_fits(const Manifest& m, const stages::CheckpointReader& checkpoint) {
  check_model(m, checkpoint);
  check_cursor(m, checkpoint.info());
  check_steps_left(m, checkpoint.info());
}

}  // namespace troupe::launch
