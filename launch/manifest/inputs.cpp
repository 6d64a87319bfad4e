#include "launch/manifest/inputs.h"

#include <fmt/format.h>

#include "launch/manifest/check.h"
#include "launch/manifest/corpus.h"
#include "launch/manifest/differences.h"
#include "launch/manifest/model_source.h"
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
auto about(const char* key, const Manifest& m, const Body& body) try {
  return body();
} catch (const Error& error) {
  m.fail(key, error.what(), error.kind());
}

void check_model(const char* key, const Manifest& m, const stages::CheckpointReader& checkpoint) {
  about(key, m, [&] { checkpoint.check_model(to_run_spec(m).model); });
}

Manifest complete(Manifest manifest, const Machine& machine, Purpose purpose = Purpose::launch) {
  resolve(manifest, machine);
  check(manifest, purpose);
  check_corpus(manifest);
  return manifest;
}

}  // namespace

Manifest load_manifest(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                       const Machine& machine, Purpose purpose) {
  return complete(Manifest::read(path, overrides), machine, purpose);
}

Manifest manifest_of_model(const std::filesystem::path& model,
                           const std::vector<std::string>& files,
                           const std::vector<std::string>& overrides, const Machine& machine) {
  const auto whole = (std::filesystem::absolute(model) / "").lexically_normal().parent_path();
  const auto set = [](const char* key, const Value& value) {
    return fmt::format("{}={}", key, to_toml(value));
  };
  std::vector<std::string> all{set("run.name", whole.filename().string()),
                               set("model.from", whole.string()), set("data.files", files)};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return complete(Manifest::parse("", whole.filename().string(), all), machine);
}

std::optional<stages::CheckpointInfo> check_start(const Manifest& m,
                                                  const stages::Progress& progress) {
  const bool is_new = m.text(kResume).empty();
  const char* key = is_new ? kModelFrom : kResume;
  if (m.text(key).empty()) return std::nullopt;
  const auto checkpoint =
      about(key, m, [&] { return stages::CheckpointReader::open(m.text(key)); });
  about(key, m, [&] { checkpoint->verify(progress); });
  if (is_new || m.flag("checkpoint.weights_only")) {
    check_model(key, m, *checkpoint);
    return std::nullopt;
  }
  check_fits(m, *checkpoint);
  return checkpoint->info();
}

void check_fits(const Manifest& m, const stages::CheckpointReader& checkpoint) {
  check_model(kResume, m, checkpoint);
  check_cursor(m, checkpoint.info());
  check_released(m, checkpoint.info());
  check_steps_left(m, checkpoint.info());
}

}  // namespace troupe::launch
