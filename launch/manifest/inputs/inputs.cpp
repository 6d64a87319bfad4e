#include "launch/manifest/inputs/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launch/manifest/checks/check.h"
#include "launch/manifest/inputs/corpus.h"
#include "launch/manifest/inputs/differences.h"
#include "launch/manifest/resolve/model_source.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"

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
  struct Option {
    const char* key;
    Value value;
    std::string given;  ///< what errors name
  };
  const std::string from = "--from " + model.string();
  const std::vector<Option> options{
      {"run.name", whole.filename().string(), from},
      {kModelFrom, whole.string(), from},
      {"data.files", files, fmt::format("--data {}", fmt::join(files, " "))}};
  std::vector<std::string> all;
  for (const Option& option : options)
    all.push_back(fmt::format("{}={}", option.key, to_toml(option.value)));
  all.insert(all.end(), overrides.begin(), overrides.end());
  Manifest manifest = Manifest::parse("", whole.filename().string(), all);
  const auto is_overridden = [&](const std::string& key) {
    return std::ranges::any_of(
        overrides, [&](const std::string& text) { return text.starts_with(key + "="); });
  };
  for (const Option& option : options)
    if (!is_overridden(option.key)) manifest.set_place(option.key, option.given);
  return complete(std::move(manifest), machine);
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
