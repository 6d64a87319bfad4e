#include "tensor/libraries/library_search.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

namespace troupe::tensor {
namespace {

namespace fs = std::filesystem;
using Folders = LibrarySearch::Folders;

/// Adds the folders in which wheels that were installed into `site` have their libraries.
void add_wheels(Folders& folders, const fs::path& site) {
  for (const char* wheel : {"cu13", "cudnn", "nccl"})
    folders.push_back(site / "nvidia" / wheel / "lib");
}

fs::path path_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? fs::path(map->l_name) : fs::path();
}

/// One search for one library, folder by folder, that remembers where it looked.
class Opening {
 public:
  Opening(const std::string& name, int flags) : name_(name), flags_(flags) {}

  /// Whether the library is open now.
  bool in(const Folders& folders) {
    for (const fs::path& folder : folders) {
      std::error_code ignored;
      if (fs::exists(folder / name_, ignored) && open(folder / name_)) return true;
      note(described(folder));
    }
    return false;
  }
  /// Whether a file was there and could not be opened.
  bool has_failed() const { return !complaint_.empty(); }
  bool in_loaders_path() {
    if (open(name_)) return true;
    note("the loader's own path");
    return false;
  }
  OpenLibrary result() {
    if (!library_.handle) {
      library_.fault = complaint_.empty()
                           ? fmt::format("{} is not on this machine (looked in {})", name_,
                                         fmt::join(looked_, ", "))
                           : fmt::format("{} cannot be opened: {}", name_, complaint_);
    }
    return library_;
  }

 private:
  bool open(const fs::path& file) {
    library_.handle = dlopen(file.c_str(), flags_);
    if (library_.handle) {
      library_.path = path_of(library_.handle);
      return true;
    }
    const char* const complaint = dlerror();
    if (file.has_parent_path() && complaint) {
      complaint_ = complaint;
      library_.path = file;
    }
    return false;
  }

  /// The folders of one site's wheels are told as one.
  static std::string described(const fs::path& folder) {
    const fs::path wheels = folder.parent_path().parent_path();
    return (wheels.filename() == "nvidia" ? wheels / "*/lib" : folder).string();
  }
  void note(const std::string& place) {
    if (looked_.empty() || looked_.back() != place) looked_.push_back(place);
  }

  const std::string name_;
  const int flags_;
  std::vector<std::string> looked_;
  std::string complaint_;
  OpenLibrary library_;
};

}  // namespace

LibrarySearch::LibrarySearch(const fs::path& program, const fs::path& chosen)
    : program_folder_(program.parent_path()), chosen_(chosen) {}

LibrarySearch LibrarySearch::of_this_process() {
  std::error_code ignored;
  const char* const chosen = std::getenv("TROUPE_CUDA_PATH");
  return {fs::read_symlink("/proc/self/exe", ignored), chosen ? chosen : ""};
}

Folders LibrarySearch::own_folders() const {
  Folders folders;
  if (!chosen_.empty()) folders.push_back(chosen_);
  const fs::path above = program_folder_.parent_path();
  folders.insert(folders.end(), {program_folder_, above, above / "lib"});
  return folders;
}

Folders LibrarySearch::chosen_folders() const {
  Folders folders;
  if (chosen_.empty()) return folders;
  folders.push_back(chosen_);
  add_wheels(folders, chosen_);
  return folders;
}

Folders LibrarySearch::toolkit_folders() {
  return {"/usr/local/cuda/lib64", "/usr/local/cuda-13.0/lib64"};
}

Folders LibrarySearch::wheel_folders(const Folders& python_path) const {
  Folders folders;
  for (const fs::path& site : python_path) add_wheels(folders, site);
  // Beside the folder of this build, or of this bundle, whose programs may lie one folder deeper.
  const fs::path above = program_folder_.parent_path();
  for (const fs::path& tree : {above, above.parent_path()}) add_wheels(folders, tree / "cuda");
  return folders;
}

Folders path_of_python() {
  Folders folders;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen("python3 -c 'import sys; print(\"\\n\".join(sys.path))' 2>/dev/null", "r"), pclose);
  if (!pipe) return folders;
  std::string text;
  std::array<char, 4096> piece;
  while (const std::size_t size = std::fread(piece.data(), 1, piece.size(), pipe.get()))
    text.append(piece.data(), size);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (fs::path(line).is_absolute() && fs::is_directory(fs::path(line) / "nvidia"))
      folders.emplace_back(line);
  return folders;
}

void* OpenLibrary::symbol(const char* name) const {
  return handle ? dlsym(handle, name) : nullptr;
}

OpenLibrary open_own_library(const LibrarySearch& search, const std::string& name) {
  Opening opening(name, RTLD_NOW | RTLD_LOCAL);
  opening.in(search.own_folders());
  return opening.result();
}

OpenLibrary open_driver(const LibrarySearch& search) {
  Opening opening("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!opening.in(search.chosen_folders())) opening.in_loaders_path();
  return opening.result();
}

OpenLibrary open_cuda_library(const LibrarySearch& search, const std::string& name) {
  Opening opening(name, RTLD_NOW | RTLD_GLOBAL);
  // A file in the folder that the user names is meant, whatever it is.
  if (!opening.in(search.chosen_folders()) && !opening.has_failed() && !opening.in_loaders_path() &&
      !opening.in(LibrarySearch::toolkit_folders()))
    opening.in(search.wheel_folders(path_of_python()));  // starting Python takes a while
  return opening.result();
}

}  // namespace troupe::tensor
