// NVRTC for tests: the one that the variable names, otherwise the wheel of the project's own environment. Used by nvrtc_test.cc
// and nvrtc_library_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "jit/cuda/nvrtc.h"
#include "tests/support/paths.h"

namespace tenon::jit {

struct FoundNvrtc {
  bool named;  // the variable names it, so it must exist
  Result<const Nvrtc*> compiler;
};
inline const FoundNvrtc& find_nvrtc() {
  static const FoundNvrtc found = [] {
    namespace fs = std::filesystem;
    const char* variable = std::getenv("TENON_NVRTC");
    const bool named = variable && std::string_view(variable) != "off";
    std::error_code none;
    if (!variable)
      for (const fs::directory_entry& python :
           fs::directory_iterator(fs::path(kSourceDirectory) / ".venv/lib", none))
        if (const fs::path folder = python.path() / "site-packages/nvidia/cu13/lib"; fs::exists(folder))
          setenv("TENON_NVRTC", folder.c_str(), 1);
    return FoundNvrtc{named, Nvrtc::get()};
  }();
  return found;
}
inline const Result<const Nvrtc*>& nvrtc() { return find_nvrtc().compiler; }
#define NEEDS_NVRTC()                                                            \
  if (!nvrtc().ok() && find_nvrtc().named) FAIL() << nvrtc().status().message(); \
  if (!nvrtc().ok()) GTEST_SKIP() << nvrtc().status().message()

}  // namespace tenon::jit
