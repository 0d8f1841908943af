// See shared_library.h.
#include "src/base/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// The folders named site-packages or dist-packages that contain loaded objects.
std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* user) {
        auto& list = *static_cast<std::vector<std::string>*>(user);
        const std::string path = info->dlpi_name ? info->dlpi_name : "";
        for (const char* name : {"/site-packages/", "/dist-packages/"}) {
          const size_t at = path.rfind(name);
          if (at == path.npos) continue;
          std::string folder = path.substr(0, at + std::string(name).size() - 1);
          if (std::find(list.begin(), list.end(), folder) == list.end()) list.push_back(std::move(folder));
        }
        return 0;
      },
      &folders);
  return folders;
}

std::string path_of(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name) return map->l_name;
  return fallback;
}

// A library that needs its companion later, and has no search path of its own, finds the companion if it is
// loaded already.
void open_companion(const std::string& path, const std::string& begin) {
  const size_t slash = path.rfind('/');
  if (begin.empty() || slash == path.npos) return;
  std::error_code ignored;
  const fs::path folder = path.substr(0, slash);
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored))
    if (file.path().filename().string().starts_with(begin))
      dlopen(file.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const LibrarySearch& search) {
  SharedLibrary library;
  std::string tried;
  const char* given = search.variable.empty() ? nullptr : std::getenv(search.variable.c_str());
  const std::string wish = given ? given : "";
  if (wish == "off") return environment(search.what + " is off: " + search.variable + "=off");
  auto attempt = [&](const std::string& name, int flags) {
    const size_t slash = name.rfind('/');
    if (slash != name.npos) {
      std::error_code ignored;
      if (!fs::exists(name, ignored)) {
        tried += (tried.empty() ? "" : ", ") + name;
        return false;
      }
    }
    library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
    if (library.handle_) {
      library.path_ = path_of(library.handle_, name);
      open_companion(library.path_, search.beside);
      return true;
    }
    if (!flags) {
      const char* why = dlerror();
      tried += (tried.empty() ? "" : ", ") + std::string(slash == name.npos || !why ? name : why);
    }
    return false;
  };
  auto in_folder = [&](const std::string& folder) {
    return std::any_of(search.sonames.begin(), search.sonames.end(),
                       [&](const std::string& soname) { return attempt(folder + "/" + soname, 0); });
  };
  if (!wish.empty()) {
    std::error_code ignored;
    if (fs::is_directory(wish, ignored) ? in_folder(wish) : attempt(wish, 0)) return library;
    return environment(search.what + " is not where " + search.variable + " says: " + tried);
  }
  for (const std::string& soname : search.sonames)
    if (attempt(soname, RTLD_NOLOAD)) return library;
  for (const std::string& packages : package_folders())
    for (const std::string& folder : search.wheel_folders)
      if (in_folder(packages + "/" + folder)) return library;
  for (const std::string& soname : search.sonames)
    if (attempt(soname, 0)) return library;
  if (const char* home = std::getenv("CUDA_HOME"); home && in_folder(std::string(home) + "/lib64"))
    return library;
  return environment(search.what + " was not found; tried " + tried);
}

Result<void*> SharedLibrary::find(const char* symbol) const {
  if (void* address = dlsym(handle_, symbol)) return address;
  return environment(path_ + " has no " + symbol);
}

}  // namespace tenon
