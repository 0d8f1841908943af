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

// Compiles the source into the file `path`, unless the file exists.
inline Object made_once(const std::string& path, std::string command, const std::string& source) {
  namespace fs = std::filesystem;
  Object object{path, ""};
  if (fs::exists(path)) return object;
  fs::create_directories(fs::path(path).parent_path());
  const std::string own =
      path + "." + std::to_string(getpid()) + "." + std::to_string(reinterpret_cast<uintptr_t>(&object));
  std::ofstream(own + ".cc") << source;
  command += " -o " + own + " " + own + ".cc > " + own + ".log 2>&1";
  const bool good = std::system(command.c_str()) == 0;
  object.log = read(own + ".log");
  std::error_code ignored;
  if (good)
    fs::rename(own, path, ignored);
  else
    object.path.clear();
  for (const char* end : {"", ".cc", ".log"}) fs::remove(own + end, ignored);
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
inline Object object_of(const std::string& text) {
  const std::string sources = kSourceDirectory, header = read(sources + "/tests/support/nvidia/cuda_host.h"),
                    included = read(sources + "/tests/mocks/cuda/cuda_host_gpu.h") +
                               read(sources + "/src/base/convert.h"),
                    compile = std::string(kCompiler) + " -std=c++20 -O0 -w -fPIC -ffp-contract=off -I";
  const std::string folder = kHostObjects + hashed(compile + header + included);
  made_once(folder + "/tests/support/nvidia/cuda_host.h.gch", compile + sources + " -x c++-header", header);
  return made_once(folder + hashed(text) + ".so", compile + folder + " -I" + sources + " -shared", text);
}

}  // namespace tn_host
