#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::tensor {

/// Where shared libraries are looked for.
class LibrarySearch {
 public:
  using Folders = std::vector<std::filesystem::path>;

  /// `program`: the file of the running program. `chosen`: the folder that the user names for all
  /// libraries, empty if none is named.
  LibrarySearch(const std::filesystem::path& program, const std::filesystem::path& chosen);
  /// A search for this process; the chosen folder is the content of the environment variable
  /// TROUPE_CUDA_PATH.
  static LibrarySearch of_this_process();

  /// Folders that may hold libraries of this project: the chosen one, the program's, the one above
  /// it (test programs lie one folder deeper than the libraries) and lib beside the program's.
  Folders own_folders() const;
  /// Folders that may hold CUDA's libraries and come before the loader's own path: the chosen one,
  /// and those of wheels that were installed into it.
  Folders chosen_folders() const;
  /// Folders that come after the loader's own path: the toolkit's.
  static Folders toolkit_folders();
  /// Folders that come last: those of wheels in `python_path`, the sys.path of a Python, then those
  /// of wheels that launch/install_cuda brought.
  Folders wheel_folders(const Folders& python_path) const;

 private:
  std::filesystem::path program_folder_;
  std::filesystem::path chosen_;
};

/// The sys.path of the python3 on PATH, which it starts; empty if there is none.
LibrarySearch::Folders path_of_python();

/// A shared library. It stays open until the process ends.
struct OpenLibrary {
  void* handle = nullptr;
  std::filesystem::path path;  ///< the file; empty if there is none
  std::string fault;  ///< why it could not be opened, if `handle` is null: which, where it was
                      ///< looked for, and the loader's complaint if it was found

  /// The address of a symbol; null if there is none.
  void* symbol(const char* name) const;
};

/// Opens a library of this project.
OpenLibrary open_own_library(const LibrarySearch& search, const std::string& name);
/// Opens the library of the NVIDIA driver, which lies in the loader's own path or the chosen
/// folder.
OpenLibrary open_driver(const LibrarySearch& search);
/// Opens a library of CUDA, so that libraries opened later find it by its name. One in the chosen
/// folder that cannot be opened is not looked for elsewhere.
OpenLibrary open_cuda_library(const LibrarySearch& search, const std::string& name);

}  // namespace troupe::tensor
