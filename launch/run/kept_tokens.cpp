#include "launch/run/kept_tokens.h"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "stages/corpus/text/indexed_dataset.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

namespace fs = std::filesystem;

KeptTokens::KeptTokens(fs::path links) : links_(std::move(links)) {
  std::error_code ignored;
  fs::remove_all(links_, ignored);  // what a killed launcher has left
}

KeptTokens::~KeptTokens() {
  std::error_code ignored;
  if (!links_.empty()) fs::remove_all(links_, ignored);
}

Manifest KeptTokens::keep(Manifest manifest) {
  const auto hold = [this](auto& text) {
    if (!text.tokens.empty()) text.tokens = keep(text.tokens);
  };
  hold(manifest->text);
  hold(manifest->eval_text);
  for (Source& source : manifest->data.sources) hold(source);
  for (EvalSet& set : manifest->eval.sets) hold(set);
  return manifest;
}

std::string KeptTokens::keep(const std::string& path) try {
  if (!stages::is_indexed_dataset(path)) return open(path).string();
  const fs::path link = links_ / fmt::format("{}.bin", files_.size());
  fs::create_directories(links_);
  fs::create_symlink(open(stages::bin_path(path)), link);
  fs::create_symlink(open(stages::idx_path(path)), stages::idx_path(link.string()));
  return link.string();
} catch (const std::exception&) {
  return path;
}

/// Opens a file. Returns a name under which every process of this user can open it.
fs::path KeptTokens::open(const std::string& path) {
  stages::InputFile file = stages::InputFile::open(path);
  fs::path name = fmt::format("/proc/{}/fd/{}", getpid(), file.descriptor());
  stages::InputFile::open(name);  // throws where there is no /proc
  files_.push_back(std::move(file));
  return name;
}

}  // namespace troupe::launch
