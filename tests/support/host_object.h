// Compiles CUDA text into a shared object with the host's compiler, for tests/support/nvidia/cuda_run.h and tests/mocks/nvrtc_mock.cc.
// Objects are kept in the build tree under the hash of their sources, so a text is compiled only once, by the first thread of any
// process that needs it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/paths.h"

namespace tn_host {

inline std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Object {
  std::string path;  // empty: the text does not compile
  std::string log;
};

// Makes the file `path` of the source by a shell command, unless the file exists. The command reads text.cc in a directory of its own
// and writes the file `made` there.
inline Object made_once(const std::string& path, const std::string& command, const std::string& source) {
  namespace fs = std::filesystem;
  Object object{path, ""};
  if (fs::exists(path)) return object;
  const std::string own =
      path + "." + std::to_string(getpid()) + "." + std::to_string(reinterpret_cast<uintptr_t>(&object));
  fs::create_directories(own);
  std::ofstream(own + "/text.cc") << source;
  const bool good = std::system(("cd " + own + " && { " + command + "; } > log 2>&1").c_str()) == 0;
  object.log = read(own + "/log");
  std::error_code ignored;
  if (good)
    fs::rename(own + "/made", path, ignored);
  else
    object.path.clear();
  fs::remove_all(own, ignored);
  return object;
}

inline std::string hashed(const std::string& bytes) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char c : bytes) hash = (hash ^ c) * 1099511628211u;
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx", static_cast<unsigned long long>(hash));
  return name;
}

// The object of a text that includes tests/support/nvidia/cuda_host.h. The header takes half of the compile time, so it is precompiled.
// ccache, if there is one, keeps objects for all checkouts; it knows the precompiled header by the .sum file.
inline Object object_of(const std::string& text) {
  const std::string sources = kSourceDirectory, header = read(sources + "/tests/support/nvidia/cuda_host.h"),
                    included = read(sources + "/tests/mocks/cuda/cuda_host_gpu.h") +
                               read(sources + "/src/base/convert.h"),
                    options = " -std=c++20 -O0 -w -fPIC -ffp-contract=off -fpch-preprocess",
                    sum = hashed(kCompiler + options + header + included), folder = kHostObjects + sum,
                    precompiled = folder + "/tests/support/nvidia/cuda_host.h.gch";
  const std::string ccache = *kCcache ? "CCACHE_BASEDIR=" + sources +
                                            " CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros"
                                            " CCACHE_PCH_EXTSUM=1 " +
                                            kCcache + " "
                                      : "",
                    compile = ccache + kCompiler + options + " -I" + folder + " -I" + sources;
  made_once(precompiled + ".sum", "cp text.cc made", sum);
  made_once(precompiled, compile + " -x c++-header text.cc -o made", header);
  return made_once(folder + hashed(text) + ".so",
                   compile + " -c text.cc -o text.o && " + kCompiler + " -shared text.o -o made", text);
}

}  // namespace tn_host
